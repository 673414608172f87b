" Colours for MLIR text, of any dialect.
if exists("b:current_syntax")
  finish
endif

syntax match mlirOperation "\<[a-z_]\w*\.[A-Za-z_][A-Za-z0-9_.]*\>"
syntax keyword mlirKeyword module return call attributes private public loc
syntax keyword mlirConstant true false unit dense dense_resource sparse array affine_map affine_set strided
syntax keyword mlirType tensor memref vector complex tuple index none tf32
syntax match mlirType "\<[su]\?i\d\+\>"
syntax match mlirType "\<b\?f\d\+\w*\>"
syntax match mlirType "![A-Za-z_][A-Za-z0-9_$.]*"
syntax match mlirType "\(\d\+\|?\|\*\)x\ze[a-z0-9?]"
syntax match mlirAttribute "#[A-Za-z_][A-Za-z0-9_$.]*"
syntax match mlirAttributeName "\<[A-Za-z_][A-Za-z0-9_$.]*\ze\s*="
syntax match mlirValue "%[A-Za-z0-9_$.-]\+\(#\d\+\|:\d\+\)\?"
syntax match mlirBlock "\^[A-Za-z0-9_$.-]\+"
syntax match mlirSymbol "@[A-Za-z_][A-Za-z0-9_$.]*"
syntax match mlirSymbol "@\"[^\"]*\""
syntax match mlirNumber "-\?\<\d\+\(\.\d*\([eE][-+]\?\d\+\)\?\)\?\>"
syntax match mlirNumber "\<0x\x\+\>"
syntax region mlirString start=+"+ skip=+\\.+ end=+"+ oneline
syntax match mlirComment "//.*$" contains=mlirTodo
syntax keyword mlirTodo TODO FIXME RUN CHECK contained

highlight default link mlirOperation Function
highlight default link mlirKeyword Keyword
highlight default link mlirConstant Constant
highlight default link mlirType Type
highlight default link mlirAttribute PreProc
highlight default link mlirAttributeName Label
highlight default link mlirValue Identifier
highlight default link mlirBlock Label
highlight default link mlirSymbol Special
highlight default link mlirNumber Number
highlight default link mlirString String
highlight default link mlirComment Comment
highlight default link mlirTodo Todo

let b:current_syntax = "mlir"
