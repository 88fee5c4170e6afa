/* The wire format of protocol buffers: every kind of field, and what is a fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/num.h"
#include "text/protobuf.h"

static void fields(void **state)
{
    static const char message[] = "\x08\x96\x01" /* 1: 150 */
                                  "\x12\x03"
                                  "abc"                                          /* 2: "abc" */
                                  "\x1d\x00\x00\xc0\xbf"                         /* 3: -1.5 */
                                  "\x21\x01\x02\x03\x04\x05\x06\x07\x08"         /* 4 */
                                  "\x2a\x00"                                     /* 5: "" */
                                  "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* 6: -1 */
                                  "\xf8\xff\xff\xff\x0f\x07";                    /* the greatest number: 7 */
    struct protobuf       r = protobuf_of((struct str){message, sizeof message - 1});
    struct protobuf_field f;
    (void)state;
    assert_true(protobuf_next(&r, &f) && f.number == 1 && f.kind == PROTOBUF_VARINT && f.value == 150);
    assert_true(protobuf_next(&r, &f) && f.number == 2 && str_is(f.bytes, "abc"));
    assert_true(protobuf_next(&r, &f) && f.number == 3 && f.kind == PROTOBUF_FIXED32);
    assert_true(protobuf_float(&f) == -1.5f);
    assert_true(protobuf_next(&r, &f) && f.number == 4 && f.value == 0x0807060504030201);
    assert_true(protobuf_next(&r, &f) && f.number == 5 && f.kind == PROTOBUF_BYTES && f.bytes.n == 0);
    assert_true(protobuf_next(&r, &f) && f.number == 6 && f.value == UINT64_MAX);
    assert_true(protobuf_next(&r, &f) && f.number == (1u << 29) - 1 && f.value == 7);
    assert_false(protobuf_next(&r, &f));
    assert_null(r.why);
}

static void faults(void **state)
{
    const struct str bad[] = {
        STR("\x08"),                                             /* no value */
        STR("\x08\x80"),                                         /* half a value */
        STR("\x80"),                                             /* half a number */
        STR("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),     /* 65 bits */
        STR("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* eleven bytes */
        STR("\x12\x04"
            "abc"), /* longer than what is left */
        STR("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            "abc"),                              /* as long as there is */
        STR("\x1d\x00\x00\x00"),                 /* three bytes of four */
        STR("\x21\x00\x00\x00\x00\x00\x00\x00"), /* seven of eight */
        STR("\x0b"),
        STR("\x0c"),
        STR("\x0e"),
        STR("\x0f"),                     /* groups; kinds that do not exist */
        STR("\x00\x01"),                 /* field 0 */
        STR("\x80\x80\x80\x80\x10\x01"), /* field 2^29 */
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct protobuf       r = protobuf_of(bad[i]);
        struct protobuf_field f;
        assert_false(protobuf_next(&r, &f));
        assert_non_null(r.why);
        assert_false(protobuf_next(&r, &f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields), cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
