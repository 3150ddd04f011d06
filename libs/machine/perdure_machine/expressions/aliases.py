"""Names that a definition gives to the items of its loops (`as: order`).

Inside of an expression a name is read as a member of one root, so that all that looks at reads,
costs and loops knows nothing of names: `order.id` is `items.order.id` there.
"""

from __future__ import annotations

from dataclasses import replace

from perdure_machine.expressions.reads import ITEMS
from perdure_machine.expressions.wire import (
    Call,
    Collection,
    Comprehension,
    Const,
    Ident,
    Select,
    Tree,
)

Names = frozenset[str]


def without_aliases(tree: Tree, names: Names) -> Tree:
    """Return `tree` with every one of `names` written as what it stands for."""
    match tree:
        case Const():
            return tree
        case Ident(name=name):
            return Select(Ident(ITEMS), name, False) if name in names else tree
        case Select(operand=operand):
            return replace(tree, operand=without_aliases(operand, names))
        case Call(args=args):
            return replace(tree, args=tuple(without_aliases(one, names) for one in args))
        case Collection(parts=parts):
            return replace(tree, parts=tuple(without_aliases(one, names) for one in parts))
        case Comprehension():
            return _comprehension(tree, names)


def _comprehension(tree: Comprehension, names: Names) -> Comprehension:
    """Names that the comprehension binds itself are its own inside of it."""
    folded = names - {tree.accu_var}
    inside = folded - set(tree.iter_vars)
    return replace(
        tree,
        iter_range=without_aliases(tree.iter_range, names),
        accu_init=without_aliases(tree.accu_init, names),
        condition=without_aliases(tree.condition, inside),
        step=without_aliases(tree.step, inside),
        result=without_aliases(tree.result, folded),
    )
