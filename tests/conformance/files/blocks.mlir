// Successors, arguments of blocks, values across blocks, `^0`, empty regions, comments of predecessors.
func.func @f(%a: i32, %c: i1) -> i32 {
  "t.br"(%c)[^1, ^named] : (i1) -> ()
^1:  // a comment
  %x = "t.x"() : () -> i32
  "t.to"(%x)[^named] : (i32) -> ()
^named:
  "t.to"()[^last] : () -> ()
^last:
  "t.loop"(%a)[^last, ^end] : (i32) -> ()
^end:
  return %a : i32
}
"t.region"() ({
}, {
^bb0:
}, {
^bb0(%x: i32 loc("x"), %y: tensor<2xf32>):
  "t.use"(%y, %x) : (tensor<2xf32>, i32) -> ()
^bb1(%z: index):
  "t.use"(%z, %later) : (index, i8) -> ()
^bb2:
  %later = "t.later"() : () -> i8
}) : () -> ()
