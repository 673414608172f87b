// What only locations hold is defined behind the program, also where it stands in metadata.
"builtin.module"() ({
  "t.a"() : () -> () loc(fused<loc("inner")>["x"])
  "t.b"() : () -> () loc(fused<affine_map<(d0) -> (2)>>[unknown])
  "t.c"() {m = affine_map<(d0) -> (3)>} : () -> () loc(fused<[affine_map<(d0) -> (3)>, loc("list"), 5]>["y"])
  "t.d"() {l = loc("list")} : () -> () loc("d"(fused<loc("f":1:2)>["z"]))
  "t.e"() : () -> tensor<2xi8, affine_set<(d0) : (d0 >= 0)>> loc(fused<affine_set<(d0) : (d0 >= 0)>>["s"])
}) : () -> () loc(unknown)
