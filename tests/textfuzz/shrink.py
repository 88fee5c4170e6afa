"""Makes a failing case smaller while it still fails."""


def sequence(value, fails):
    """Drops ever smaller parts of a string, bytes or list, as long as fails(value) stays true."""
    size = max(len(value) // 2, 1)
    while size and len(value) > 0:
        i, smaller = 0, False
        while i < len(value):
            candidate = value[:i] + value[i + size:]
            if fails(candidate):
                value, smaller = candidate, True
            else:
                i += size
        if not smaller or size > len(value):
            size //= 2
    return value


def tree(value, fails):
    """Drops members and elements of a JSON value, at every depth, and shortens its strings."""
    def at(path, root):
        for key in path:
            root = root[key]
        return root

    def put(root, path, new):
        if not path:
            return new
        copy = dict(root) if isinstance(root, dict) else list(root)
        copy[path[0]] = put(root[path[0]], path[1:], new)
        return copy

    def paths(node, prefix=()):
        yield prefix
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            yield from paths(node[key], (*prefix, key))

    changed = True
    while changed:
        changed = False
        for path in list(paths(value)):
            try:
                node = at(path, value)
            except (KeyError, IndexError, TypeError):
                continue
            if isinstance(node, dict):
                for key in list(node):
                    candidate = put(value, path, {k: v for k, v in node.items() if k != key})
                    if fails(candidate):
                        value, node, changed = candidate, at(path, candidate), True
            elif isinstance(node, (list, str)) and len(node):
                small = sequence(node, lambda part: fails(put(value, path, part)))
                if len(small) < len(node):
                    value, changed = put(value, path, small), True
    return value
