// Comments and line ends wherever blanks may stand.
%0, %1 // results
  :2 // and their number
  = // the name
  "t.a" // operands
  ( // none
  ) < // properties
  {a = 1 // a number
  : // its type
  i32}> : // types
  () -> (i1, memref // layout
  <4x // element
  f32, // space
  1>, tensor
  <2xf32>)
"t.b"(%0, // first
  %1#0) {b = dense // literal
  <[1, // one
    2]> : tensor<2xi32>, c = distinct // number
  [0x3 // three
  ]<42>, d = affine_map<(d0) // a dimension
  -> (d0)>, e = array<i32: // elements
  7>} : (i1, memref<4xf32, 1>) -> ()
