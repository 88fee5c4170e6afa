"""Random small Jinja templates over the whole language, for comparing our engine with jinja2 (jinja_compare.py).

`cases(seed)` yields (template, context) pairs without end. Expressions are drawn by the type that they should have, so that
most templates render; every tenth operand has a random type, and every tenth template is damaged afterwards, so that faults
are compared, too. What prints an address in Python (generators, bound methods) is left out.
"""
import json
import random
import re

WORDS = ["", "a", "b", "A", "ab", "aB c", " x ", "\\n", "a\\nb\\n\\nc", "tool", "é", "ß", "日本", "😀", "<b>&'\\\"</b>", "1", "-2", "3.5",
         "0x1f", "1e3", "%s", "%d", "{}", "{0}", "a,b,c", "a.b", "\\t", "x=1", "www.a.com", "a@b.de", "ǅ", "İ", "ΑΣ", "Σ.ς", "Ⅷⓐ", "一", "½", "i\\u0307", "'",
         "Hello World", "it's a dog", "\\u200b", "\\x7f", "٣", "²", "ﬁ", "__x", "\\\\", "_a"]
KEYS = ["a", "b", "c", "items", "name", "role", "content", "keys", "k", "length"]
SPECS = ["", "d", "5", "<5", ">5", "^6", "*^7", "05", "+", ",", "_", ".2f", "8.3f", "e", ".3e", "g", ".4g", "%", ".1%", "x", "#x", "b", "o",
         "c", "s", "10s", ".2s", "=+6", "08.2f", "n", "X", "-^9", "é>4", "#.3g", "E", "G", "F", "#b", "1,", "012,", "+_d", " d", "z", ".0f"]
PERCENTS = ["%s", "%d", "%5s", "%-5s|", "%05d", "%.2f", "%x", "%r", "%c", "%e", "%g", "%%", "%+d", "%i", "%o", "%X", "%5.1f", "%a",
            "%(a)s", "%.3s", "%#x", "% d", "%G", "%u", "%-05d|", "%+.3e", "%*d", "%.*f", "%q", "%", "%.0f", "%#o", "%5%"]


class Gen:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = {}

    def pick(self, *options):
        return self.r.choice(options)

    def maybe(self, p=0.5):
        return self.r.random() < p

    # --- contexts ---

    def json(self, depth=2):
        n = self.r.randrange(9 if depth else 6)
        if n == 0:
            return self.r.choice([None, True, False])
        if n == 1:
            return self.r.choice([0, 1, -1, 2, 3, 7, 10, 255, -17, 1000, 123456789, 2**53, 9007199254740993])
        if n == 2:
            return self.r.choice([0.0, 1.0, -0.5, 0.1, 1.5, 2.5, 1e16, 1e-5, 3.14159, 1e300, -2.0, 123456.789, 1e22, 5e-324])
        if n < 6:
            return self.word()
        if n < 8:
            return [self.json(depth - 1) for _ in range(self.r.randrange(4))]
        return {self.r.choice(KEYS): self.json(depth - 1) for _ in range(self.r.randrange(4))}

    def word(self):
        return json.loads('"' + self.r.choice(WORDS).replace("\\x7f", "\\u007f") + '"')

    def context(self):
        return {"s": self.word(), "t": self.word() + self.word(), "n": self.r.randrange(-3, 9), "m": self.r.choice([0, 1, 2, 12345]),
                "x": self.r.choice([0.5, 1.0, -2.75, 1e17, 1e-7, 2.5]), "l": [self.json() for _ in range(self.r.randrange(5))],
                "ln": [self.r.randrange(-5, 20) for _ in range(self.r.randrange(6))],
                "ls": [self.word() for _ in range(self.r.randrange(6))],
                "d": {self.r.choice(KEYS): self.json(1) for _ in range(self.r.randrange(5))},
                "ds": [{"a": self.r.randrange(3), "name": self.word(), **({"b": self.json(0)} if self.maybe() else {})}
                       for _ in range(self.r.randrange(5))],
                "z": None, "y": self.maybe(), "v": self.json()}

    # --- expressions ---

    def expr(self, kind, depth):
        if self.maybe(0.08):
            kind = self.pick("str", "int", "float", "bool", "list", "dict", "none", "undef")
        if kind == "any":
            kind = self.pick("str", "str", "int", "int", "float", "bool", "list", "list", "dict", "none", "undef")
        text = getattr(self, kind)(depth)
        return "(" + text + ")" if self.maybe(0.05) else text

    def p(self, kind, depth):
        """An operand that can stand before a postfix operator or a filter."""
        text = self.expr(kind, depth)
        simple = text.isalnum() or (text[0] in "'[{(" and text.count("(") < 2 and text[-1] in "']})" and " " not in text)
        return text if simple and not text[0].isdigit() else "(" + text + ")"

    def variable(self, kind, name, d):
        """An operand that jinja2 cannot fold while it compiles, which makes some faulty slices undefined."""
        text = self.p(kind, d)
        return text if re.search(r"\b(s|t|l|ln|ls|ds|d)\b", text) and "'" not in text else name

    def lit(self):
        word = self.r.choice(WORDS)
        quote = self.pick("'", '"')
        return quote + (word.replace("'", "\\'") if quote == "'" else word) + quote

    def none(self, depth):
        return self.pick("none", "z", "None")

    def undef(self, depth):
        return self.pick("u", "d.zz", "d['zz']", "l[99]", "(1 if false)", "s.zz")

    def bool(self, depth):
        if depth <= 0:
            return self.pick("true", "false", "y", "True", "not y")
        d = depth - 1
        choice = self.r.randrange(11)
        if choice == 0:
            return f"{self.p('any', d)} is {self.pick('', 'not ')}{self.test(d)}"
        if choice == 1:
            kind = self.pick("int", "str", "float", "list")
            return f"{self.p(kind, d)} {self.pick('==', '!=', '<', '<=', '>', '>=')} {self.p(kind, d)}"
        if choice == 2:
            return f"{self.p('any', d)} {self.pick('in', 'not in')} {self.p(self.pick('list', 'dict', 'str'), d)}"
        if choice == 3:
            return f"{self.expr('bool', d)} {self.pick('and', 'or')} {self.expr('any', d)}"
        if choice == 4:
            return f"not {self.p('any', d)}"
        if choice == 5:
            method = self.pick("isalpha", "isdigit", "isalnum", "isspace", "isupper", "islower", "istitle", "isnumeric", "isdecimal",
                               "isascii", "isidentifier", "isprintable")
            return f"{self.p('str', d)}.{method}()"
        if choice == 6:
            return f"{self.p('str', d)}.{self.pick('startswith', 'endswith')}({self.pick(self.expr('str', d), '(s, t)', self.lit())})"
        if choice == 7:
            return f"{self.p('int', d)} < {self.p('int', d)} <= {self.p('float', d)}"
        if choice == 8:
            return f"{self.p('any', d)} == {self.p('any', d)}"
        if choice == 9:
            return f"{self.p('float', d)}.is_integer()"
        return f"{self.p('any', d)} and {self.p('any', d)} or {self.expr('bool', d)}"

    def test(self, d):
        return self.pick("defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping",
                         "sequence", "iterable", "callable", "escaped", "odd", "even", "upper", "lower",
                         "filter", "test", f"divisibleby {self.pick('2', '3', 'n')}", f"divisibleby({self.expr('int', d)})",
                         f"in {self.p('list', d)}", f"in({self.expr('list', d)})", f"sameas {self.pick('none', 'true', 's', 'l', '1')}",
                         f"eq({self.expr('any', d)})", f"equalto {self.lit()}", f"ne 1", f"gt({self.expr('int', d)})", "lt 3",
                         f"ge {self.pick('n', '2')}", "le(x)", "nosuch")

    def int(self, depth):
        if depth <= 0:
            return self.pick("0", "1", "2", "3", "-1", "7", "n", "m", "10", "1_000", "0x1F", "0b101", "0o17", "255", "-n")
        d = depth - 1
        choice = self.r.randrange(15)
        if choice < 3:
            op = self.pick("+", "-", "*", "//", "%")
            return f"{self.p('int', d)} {op} {self.p('int', d)}"
        if choice == 3:
            return f"{self.p(self.pick('str', 'list', 'dict'), d)}|{self.pick('length', 'count')}"
        if choice == 4:
            return f"{self.p('str', d)}|int{self.pick('', '', f'({self.expr(chr(105) + chr(110) + chr(116), d)})', '(5, 16)', '(base=8)', '(0,2)', '(1,0)')}"
        if choice == 5:
            return f"{self.p('str', d)}.{self.pick('find', 'rfind', 'count', 'index', 'rindex')}({self.expr('str', d)}{self.pick('', '', ', 1', ', 0, 2', ', -3', ', none, 2')})"
        if choice == 6:
            return f"{self.p('list', d)}|{self.pick('sum', 'first', 'last', 'min', 'max')}"
        if choice == 7:
            return f"{self.p('int', d)}|abs"
        if choice == 8:
            return f"{self.p('int', d)} ** {self.pick('2', '3', '0', 'n', '-1', 'm', '70')}"
        if choice == 9:
            return f"{self.expr('int', d)} if {self.expr('bool', d)} else {self.expr('int', d)}"
        if choice == 10:
            return f"{self.p('list', d)}.{self.pick('count', 'index')}({self.expr('any', d)}{self.pick('', '', ', 1', ', 0, 2', ', -2')})"
        if choice == 11:
            return self.pick("-", "+") + self.p("int", d)
        if choice == 12:
            return f"{self.p('int', d)}.{self.pick('real', 'imag', 'numerator', 'denominator', 'bit_length()', 'bit_count()', 'conjugate()')}"
        if choice == 13:
            return f"{self.p(self.pick('float', 'bool', 'any'), d)}|int"
        return self.pick("99999999999999999999", "2**64", "-2**63", "9223372036854775807 + 1", "10**20 // 7", "-10**19 % 97", "2**100 - 2**99",
                         "10**25 / 10**20", "2**64 == 2.0**64", "(2**70)|string|length", "'123456789012345678901'|int", "2**63|abs")

    def float(self, depth):
        if depth <= 0:
            return self.pick("1.5", "0.1", "2.0", "1e3", "x", "-0.5", "1.0e-7", "123456.789", "1e16", "3.0")
        d = depth - 1
        choice = self.r.randrange(9)
        if choice < 3:
            return f"{self.p('float', d)} {self.pick('+', '-', '*', '/', '//', '%')} {self.p(self.pick('int', 'float'), d)}"
        if choice == 3:
            return f"{self.p('int', d)} / {self.p('int', d)}"
        if choice == 4:
            return f"{self.p(self.pick('float', 'int'), d)}|round{self.pick('', '(1)', '(2)', '(-1)', '(0, chr)', '(1, %r)' % 'ceil', '(1, %r)' % 'floor', '(method=%r)' % 'ceil', '(precision=3)')}"
        if choice == 5:
            return f"{self.p('str', d)}|float{self.pick('', '(1.5)', '(default=none)')}"
        if choice == 6:
            return f"{self.p('float', d)} ** {self.pick('2', '0.5', '-1', 'n')}"
        if choice == 7:
            return f"{self.p('any', d)}|float"
        return self.pick("-", "+") + self.p("float", d)

    def str(self, depth):
        if depth <= 0:
            return self.pick("s", "t", self.lit(), self.lit(), self.lit())
        d = depth - 1
        choice = self.r.randrange(24)
        if choice < 2:
            return f"{self.p('any', d)} ~ {self.p('any', d)}"
        if choice == 2:
            return f"{self.p('str', d)} + {self.p('str', d)}"
        if choice in (3, 4):
            return f"{self.p('str', d)}|{self.str_filter(d)}"
        if choice in (5, 6):
            return f"{self.p('str', d)}.{self.str_method(d)}"
        if choice == 7:
            return f"{self.variable('str', 's', d)}[{self.subscript(d)}]"
        if choice == 8:
            return f"{self.p('list', d)}|join{self.pick('', '(%s)' % self.expr('str', d), '(%s, attribute=%r)' % (self.lit(), 'name'))}"
        if choice in (9, 10):
            return f"{self.p('any', d)}|{self.pick('string', 'tojson', 'tojson', 'pprint', 'e', 'forceescape', 'safe', 'escape', 'upper', 'trim')}"
        if choice == 11:
            args = self.pick("", "indent=2", "indent=none", "true", "ensure_ascii=true", "sort_keys=true", "separators=(',',':')", "indent='--'",
                             "false, 1", "indent=0")
            return f"{self.p(self.pick('dict', 'list', 'any'), d)}|tojson({args})"
        if choice == 12:
            form = "".join(self.r.choice(PERCENTS) for _ in range(self.r.randrange(1, 3)))
            value = self.pick(self.p("int", d), self.p("float", d), f"({self.expr('any', d)}, {self.expr('int', d)})", f"({self.expr('any', d)},)", "d",
                              self.p("str", d))
            return f"'{form}' % {value}"
        if choice == 13:
            form = "".join(self.r.choice(PERCENTS) for _ in range(self.r.randrange(1, 3)))
            return f"'{form}'|format({', '.join(self.expr('any', d) for _ in range(self.r.randrange(1, 3)))})"
        if choice in (14, 15):
            spec = self.r.choice(SPECS)
            field = self.pick("", "0", "a", "0.a", "0[a]", "0[0]", "1", "a!r", "0!s", "!r", "!a", "a.b[0]")
            nested = self.pick("{" + field + ":" + spec + "}", "{" + field + "}", "{:{}}", "{{" + spec + "}}", "{:{a}}{}", "}", "{", "{0:>{a}}")
            return f"'{nested}'.format({self.expr(self.pick('int', 'float', 'str', 'any'), d)}, {self.expr('any', d)}, a={self.expr(self.pick('int', 'any'), d)})"
        if choice == 16:
            return f"{self.p('str', d)} * {self.pick('2', '3', '0', '-1', 'n')}"
        if choice == 17:
            return f"{self.expr('str', d)} if {self.expr('bool', d)}{self.pick('', ' else ' + self.expr('str', d))}"
        if choice == 18:
            return f"{self.p('any', d)}|default({self.expr('str', d)}{self.pick('', ', true', ', boolean=y')})"
        if choice == 19:
            return f"{self.p('str', d)}{self.pick('|safe', '|e')} {self.pick('+', '~', '%')} {self.p('any', d)}"
        if choice == 20:
            return f"{self.p('str', d)}|{self.pick('e', 'safe')}|{self.str_filter(d)}"
        if choice == 21:
            return f"({self.p('str', d)}|{self.pick('e', 'safe')}).{self.str_method(d)}"
        if choice == 22:
            return f"{self.p('dict', d)}.{self.pick('a', 'b', 'name', 'k')}"
        return f"{self.p('list', d)}[{self.pick('0', '-1', '1', 'n')}]"

    def str_filter(self, d):
        return self.pick("upper", "lower", "title", "capitalize", "trim", f"trim({self.lit()})", "length", "string", "reverse", "first", "last",
                         f"replace({self.lit()}, {self.lit()})", f"replace({self.lit()}, {self.lit()}, {self.pick('1', '2', '0', 'none', '-1')})",
                         "indent", "indent(2)", "indent(width=3, first=true)", "indent('>> ', blank=true)", "indent(1, true, true)", "center(12)", "center",
                         f"truncate({self.pick('3', '5', '10', '4, true', '5, false, ' + self.lit() + ', 0', '3, leeway=0')})", "wordcount",
                         f"wordwrap({self.pick('3', '5', '10', '4, false', '6, wrapstring=%r' % '|', '5, true, %r, false' % '/')})", "striptags",
                         "urlencode", "e", "escape", "forceescape", "safe", "list", "unique|list", "sort", "max", "min", "string|length",
                         "urlize", "urlize(5)", "urlize(none, true)", "urlize(target='t', rel='a b')", "urlize(extra_schemes=['x:'])",
                         "attr('upper')", "attr('a')", "batch(2)|list", "slice(2)|list", "filesizeformat", "int", "float", "random|length",
                         "wordwrap", "pprint", "tojson", "map('upper')|list|join", "select|list", "items|list", "dictsort", "xmlattr", "count",
                         "groupby(0)", "nosuch", "round", "abs", "sum")

    def str_method(self, d):
        s = lambda: self.expr("str", d)
        return self.pick("upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", f"strip({s()})", "lstrip()",
                         f"rstrip({s()})", f"replace({s()}, {s()})", f"replace({s()}, {s()}, 1)", f"split()", f"split({s()})", f"split({s()}, 1)",
                         f"rsplit({s()}, 1)", "rsplit()", "split(none, 1)", "split(maxsplit=1)", f"split(sep={self.lit()})", "rsplit(none, 2)", "splitlines()", "splitlines(true)",
                         "splitlines(keepends=y)", f"partition({self.lit()})", f"rpartition({self.lit()})", f"join({self.expr('list', d)})", "join(ls)",
                         "zfill(5)", "ljust(6)", f"rjust(6, {self.lit()})", "center(7)", "center(8, '*')", "expandtabs()", "expandtabs(3)",
                         f"removeprefix({s()})", f"removesuffix({s()})", f"startswith({s()}, 1)", f"endswith({s()}, 0, 2)", f"count({s()})",
                         "isalpha()", "encode()|string", "encode('utf-8')|string", "encode('ascii', 'replace')|string", "encode().decode()", "format_map(d)", "format(1, 2, a=3)", "translate({97: 'x', 98: none})",
                         "maketrans('ab', 'cd')", "title().lower()", "unescape()", "striptags()", "escape('<')", "nosuch()", "upper", "a", "length()")[:200]

    def subscript(self, d):
        i = lambda: self.pick("", "0", "1", "-1", "2", "n", "-2", "none", self.expr("int", d))
        return self.pick(i() or "0", f"{i()}:{i()}", f"{i()}:{i()}:{self.pick('', '1', '2', '-1', '-2', '0')}", "::-1", self.expr("any", d))

    def list(self, depth):
        if depth <= 0:
            return self.pick("l", "ln", "ls", "ds", "[]", "[1, 2]", "['a', 'b']", "(1,)", "()", "(3, 'x')")
        d = depth - 1
        choice = self.r.randrange(20)
        if choice == 0:
            return "[" + ", ".join(self.expr("any", d) for _ in range(self.r.randrange(4))) + "]"
        if choice == 1:
            return "(" + "".join(self.expr("any", d) + ", " for _ in range(self.r.randrange(3))) + ")"
        if choice == 2:
            return f"{self.p('list', d)} + {self.p('list', d)}"
        if choice == 3:
            return f"{self.variable('list', 'l', d)}[{self.subscript(d)}]"
        if choice == 4:
            return f"{self.p('list', d)}|{self.pick('sort', 'sort(reverse=true)', 'sort(case_sensitive=true)', 'unique|list', 'reverse|list', 'list', 'unique(true)|list')}"
        if choice == 5:
            return f"ds|{self.pick('sort(attribute=%r)', 'sort(true, attribute=%r)', 'map(attribute=%r)|list', 'map(attribute=%r, default=0)|list', 'unique(attribute=%r)|list', 'groupby(%r)', 'groupby(%r, default=0)', 'sum(attribute=%r)', 'max(attribute=%r)', 'min(attribute=%r)', 'groupby(%r, case_sensitive=true)') % self.pick('a', 'name', 'b', 'a,name', 'name.0', 'zz')}"
        if choice == 6:
            return f"ds|{self.pick('selectattr', 'rejectattr')}({self.pick(repr('a'), repr('b'), repr('name'))}{self.pick('', ', ' + repr('defined'), ', ' + repr('equalto') + ', 1', ', ' + repr('in') + ', [1, 2]', ', ' + repr('string'))})|list"
        if choice == 7:
            return f"{self.p('list', d)}|{self.pick('select', 'reject')}{self.pick('', '(%r)' % 'string', '(%r, 2)' % 'gt', '(%r)' % 'defined', '(%r)' % 'none', '(%r)' % 'odd', '(%r)' % 'nosuch')}|list"
        if choice == 8:
            return f"{self.p('list', d)}|map({self.pick(repr('upper'), repr('string'), repr('int'), repr('length'), repr('replace') + ', ' + repr('a') + ', ' + repr('b'), repr('default') + ', 1', repr('tojson'), repr('trim'), repr('abs'), repr('join'), repr('nosuch'))})|list"
        if choice == 9:
            return f"{self.p('list', d)}|batch({self.pick('2', '3', '1', '2, 0', 'n')})|list"
        if choice == 10:
            return f"{self.p('list', d)}|slice({self.pick('2', '3', '1', '3, 0', 'n')})|list"
        if choice == 11:
            return f"{self.p('dict', d)}|{self.pick('dictsort', 'dictsort(true)', 'dictsort(by=%r)' % 'value', 'dictsort(reverse=true)', 'items|list', 'list')}"
        if choice == 12:
            return f"{self.p('dict', d)}.{self.pick('items()', 'keys()', 'values()')}{self.pick('', '|list', '|list')}"
        if choice == 13:
            return f"range({self.pick('n', '3', '1, 4', '5, 0, -2', '0', 'n, m', '1, 2, 0')}){self.pick('', '|list', '|list', '[1:]', '.start', '.count(1)')}"
        if choice == 14:
            return f"{self.p('str', d)}.split({self.pick('', self.lit(), self.lit() + ', 1')})"
        if choice == 15:
            return f"{self.p('str', d)}|list"
        if choice == 16:
            return f"{self.p('list', d)} * {self.pick('2', '0', '-1', 'n')}"
        if choice == 17:
            return f"[{self.expr('any', d)}]|{self.pick('first', 'last', 'join', 'length', 'tojson', 'string', 'pprint')}"
        if choice == 18:
            return f"{self.p('list', d)}.copy()"
        return f"{self.expr('list', d)} if {self.expr('bool', d)} else {self.expr('list', d)}"

    def dict(self, depth):
        if depth <= 0:
            return self.pick("d", "d", "{}", "{'a': 1}", "{1: 'x', 'b': none}")
        d = depth - 1
        choice = self.r.randrange(9)
        if choice < 3:
            return "{" + ", ".join(f"{self.pick(repr(self.r.choice(KEYS)), self.pick('1', 'n', 'z', '(1, s)', 'true', '1.0', '2.5', 's'), self.lit())}: {self.expr('any', d)}"
                                   for _ in range(self.r.randrange(4))) + "}"
        if choice == 3:
            return f"dict({', '.join(self.pick('a', 'b', 'c') + str(i) + '=' + self.expr('any', d) for i in range(self.r.randrange(3)))}{self.pick('', '', '**d')})"
        if choice == 4:
            return self.pick("dict(d)", "dict(d, a=1)", "dict([('a', 1), ['b', 2]])", "d.copy()", "dict.fromkeys('ab', 1)", "dict(ds)", "dict([1])", "dict(**d)")
        if choice == 5:
            return f"{self.p('list', d)}|first"
        if choice == 6:
            return f"{self.p('dict', d)}.get({self.expr('any', 0)}{self.pick('', ', ' + self.expr('any', d))})"
        if choice == 7:
            return f"{self.p('dict', d)}[{self.pick(repr(self.r.choice(KEYS)), self.expr('any', 0))}]"
        return f"{self.expr('dict', d)} if {self.expr('bool', d)} else {self.expr('dict', d)}"

    # --- statements ---

    def tag(self, text):
        return "{%" + self.pick("", "", "", "-", "+") + " " + text + " " + self.pick("", "", "", "-", "+") + "%}"

    def out(self, depth=2):
        left = self.pick("", "", "", "-")
        text = self.expr("any", self.r.randrange(depth + 2))
        return "{{" + left + " " + text + " " + self.pick("", "", "", "-") + "}}"

    def text(self):
        return self.pick("", "", " ", "\n", "x", "a \n b", "\n\n", "  ", "<&>", "{# note #}", "\t", "{#- a -#}", "{% raw %} {{ a }} {% endraw %}", "é\r\nb")

    def body(self, depth, loop=False):
        return "".join(self.text() + self.statement(depth, loop) for _ in range(self.r.randrange(1, 4))) + self.text()

    def statement(self, depth, loop=False):
        if depth <= 0 or self.maybe(0.4):
            return self.out() if not loop or self.maybe(0.6) else "{{ " + self.loop_expr() + " }}"
        d = depth - 1
        kind = self.r.randrange(15)
        if kind < 2:
            parts = [self.tag("if " + self.expr("bool", 2)), self.body(d, loop)]
            if self.maybe(0.3):
                parts += [self.tag("elif " + self.expr("any", 1)), self.body(d, loop)]
            if self.maybe():
                parts += [self.tag("else"), self.body(d, loop)]
            return "".join(parts + [self.tag("endif")])
        if kind < 5:
            return self.loop(d)
        if kind == 5:
            name = self.pick("a", "b", "s", "n", "l", "loop", "u")
            return self.tag(f"set {name} = {self.expr('any', 2)}")
        if kind == 6:
            return self.tag(self.pick("set a, b = 1, 2", "set a, b = l", "set a = 1, 2", f"set a = ({self.expr('any', 1)},)", "set (a, b) = d.items()", "set d.a = 1",
                                      "set a, (b, c) = 1, (2, 3)"))
        if kind == 7:
            chain = self.pick("", "", " | upper", " | trim | length", " | replace('a', 'b')")
            return self.tag("set a" + chain) + self.body(d, loop) + self.tag("endset") + "{{ a }}"
        if kind == 8:
            return self.tag("filter " + self.pick("upper", "trim", "replace('a', s)", "upper | lower", "indent(2)", "e", "length", "tojson")) + self.body(d, loop) + self.tag("endfilter")
        if kind == 9:
            return self.tag("with " + self.pick("a = 1", f"a = {self.expr('any', 1)}, b = a", "", "a, b = 1, 2", "s = n")) + self.body(d, loop) + self.tag("endwith")
        if kind == 10:
            return (self.tag("set ns = namespace(" + self.pick("", "a=1", "d", "d, a=2", "a=[]") + ")") + self.body(d, loop) + self.tag(f"set ns.a = {self.expr('any', 1)}") +
                    self.pick("{{ ns.a }}", "{{ ns }}", "{{ ns['a'] }}{{ ns.zz }}", "{{ ns.items }}"))
        if kind == 11:
            return self.macro(d)
        if kind == 12:
            return self.pick("{% set c = cycler(1, 'a', n) %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.pos }}{{ c.items }}{% set _ = c.reset() %}{{ c.next() }}",
                             "{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ j.used }}{{ j.sep }}", "{% set j = joiner() %}{{ j() ~ j() ~ j() }}",
                             "{{ raise_exception('no') if y }}", "{{ strftime_now('%Y')|length }}", "{{ lipsum(n=1)|length > 5 }}", "{{ lipsum(2, false, 3, 5)|wordcount > 4 }}",
                             "{% generation %}{{ s }}{% set s = 1 %}{% endgeneration %}{{ s }}", "{% print s, n %}", "{{ self }}"[:0], "{% do 1 %}"[:0])
        if kind == 13:
            return self.tag(f"autoescape {self.pick('true', 'false')}") + self.body(d, loop) + self.tag("endautoescape")
        return self.tag("block b" + str(self.r.randrange(10**6)) + self.pick("", " scoped")) + self.body(d, loop) + self.tag("endblock")

    def loop_expr(self):
        return self.pick("loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.first", "loop.last", "loop.length", "loop.depth", "loop.depth0",
                         "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(s)", "loop.changed(i)", "i", "i", "loop|length", "loop.previtem is defined",
                         "loop.nextitem|default('none')", "loop.cycle()", "loop.nosuch", "loop")

    def loop(self, d):
        target, source = self.pick(("i", self.expr("list", 2)), ("i", self.expr("any", 1)), ("i, j", "d.items()"), ("i, j", "ds|dictsort"), ("i, j", "[[1, 2], (3, 4)]"),
                                   ("i, (j, k)", "[[1, [2, 3]]]"), ("i", "range(n)"), ("i", "d"), ("i", "s"), ("i, j", "d|dictsort"), ("i, j", "d|items"), ("i", "ds|groupby('a')"),
                                   ("i", "l|select"), ("i", "l|batch(2)"), ("(i, j)", "ls"), ("i", "l|map('string')"))
        cond = self.pick("", "", "", " if " + self.expr("bool", 1), " if i", " if i is string")
        inner = self.body(d, True)
        if self.maybe(0.2):
            inner += self.tag("if " + self.pick("loop.index == 2", "loop.first", "i == 1", self.expr("bool", 1))) + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.text()
        if self.maybe(0.1):
            return self.tag(f"for {target} in {self.pick('ds', 'l', '[{0: []}]'.replace('0', repr('c')), 'v')} recursive") + self.out(1) + "{{ loop(i.c) if i.c }}" + inner + self.tag("endfor")
        end = self.tag("else") + self.body(d - 1) if self.maybe(0.3) else ""
        return self.tag(f"for {target} in {source}{cond}") + inner + end + self.tag("endfor")

    def macro(self, d):
        params = self.pick("", "a", "a, b=1", "a, b=a, c=s", "a=n, b=[a]", "a, b", "a=1, b")
        inner = self.body(d) + self.pick("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(1) if caller else 'x' }}", "{{ a }}{{ b }}", "{{ a is defined }}")
        text = self.tag(f"macro f({params})") + inner + self.tag("endmacro")
        args = self.pick("", "1", "1, 2", "s, b=n", "a=1", "*l", "**d", "1, 2, 3", "1, *ls, **d", "zz=1", "*[1, 2]", "1, a=2", "b=1, *[2]")
        if self.maybe(0.3):
            return text + self.tag("call" + self.pick("", "(q)", "(q, r=1)") + f" f({args})") + self.body(d) + self.pick("", "{{ q }}") + self.tag("endcall")
        return text + self.pick("{{ f(" + args + ") }}", "{{ f(" + args + ") | upper }}", "{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}{{ f.caller }}{{ f(" + args + ") ~ 1 }}",
                                "{{ f }}", "{% set a = 5 %}{{ f(" + args + ")|length }}")

    def damage(self, text):
        """The template with a few characters or tokens lost, doubled or swapped."""
        for _ in range(self.r.randrange(1, 3)):
            if not text:
                break
            i = self.r.randrange(len(text))
            n = self.pick(1, 1, 2, 5)
            insert = self.pick("", "", text[i:i + n] * 2, self.pick("{%", "%}", "{{", "}}", "-", "(", ")", "[", "]", ",", "|", ".", "'", "if ", "not ", "is ", "in ", "else ", "~", "**", "{#", "#}", ":", "=", "1", " "))
            text = text[:i] + insert + text[i + (n if self.maybe(0.7) else 0):]
        return text

    def case(self):
        text = self.body(self.pick(0, 0, 0, 1, 2, 3)) if self.maybe(0.6) else "{{ " + self.expr("any", self.pick(1, 2, 3)) + " }}"
        return (self.damage(text) if self.maybe(0.1) else text), self.context()


def cases(seed=0):
    """(template, context) pairs without end, the same for the same seed."""
    n = 0
    while True:
        yield Gen(f"{seed}/{n}").case()
        n += 1
