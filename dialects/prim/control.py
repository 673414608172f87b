"""Control flow of `prim`, with the meaning that it has in `hl`."""

from __future__ import annotations

from gradopt.dialects.control_flow import CallBase, IfBase, ScanBase, SwitchBase, WhileBase, YieldBase


class ScanOp(ScanBase):
    __doc__ = ScanBase.__doc__
    __slots__ = ()
    name = "prim.scan"


class WhileOp(WhileBase):
    __doc__ = WhileBase.__doc__
    __slots__ = ()
    name = "prim.while"


class IfOp(IfBase):
    __doc__ = IfBase.__doc__
    __slots__ = ()
    name = "prim.if"


class SwitchOp(SwitchBase):
    __doc__ = SwitchBase.__doc__
    __slots__ = ()
    name = "prim.switch"


class CallOp(CallBase):
    __doc__ = CallBase.__doc__
    __slots__ = ()
    name = "prim.call"


class YieldOp(YieldBase):
    __doc__ = YieldBase.__doc__
    __slots__ = ()
    name = "prim.yield"
