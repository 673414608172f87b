"""Control flow, calls and markers of `hl`."""

from __future__ import annotations

from gradopt.dialects.control_flow import ForBase, IfBase, ScanBase, SwitchBase, WhileBase, YieldBase


class ScanOp(ScanBase):
    __doc__ = ScanBase.__doc__
    __slots__ = ()
    name = "hl.scan"


class WhileOp(WhileBase):
    __doc__ = WhileBase.__doc__
    __slots__ = ()
    name = "hl.while"


class ForOp(ForBase):
    __doc__ = ForBase.__doc__
    __slots__ = ()
    name = "hl.for"


class IfOp(IfBase):
    __doc__ = IfBase.__doc__
    __slots__ = ()
    name = "hl.if"


class SwitchOp(SwitchBase):
    __doc__ = SwitchBase.__doc__
    __slots__ = ()
    name = "hl.switch"


class YieldOp(YieldBase):
    __doc__ = YieldBase.__doc__
    __slots__ = ()
    name = "hl.yield"
