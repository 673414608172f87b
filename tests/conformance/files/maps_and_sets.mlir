#b = affine_map<(d0) -> (d0 + 7)>
#c = affine_map<(d0) -> (d0 + 9)>
#st = affine_set<(d0) : (d0 >= 0)>
!al = i32
#x = 42 : i32
"t.a"() <{z = #c, y = [#b, #c]}> ({
  "t.in"() {q = affine_map<(d0) -> (d0 + 11)>, a = #st, al = #x} : () -> !al
}) {m = affine_map<(d0) -> (d0 + 13)>} : () -> memref<4xf32, #b>
"t.b"() {s = affine_set<(d0) : (d0 - 1 >= 0)>, big = memref<4xf32, affine_map<(d0) -> (d0 + 21)>, 1>} : () -> () loc("a"("f":1:2))
