// Properties that are no dictionary, and none at all; predecessors that come more than once.
#a = [1, 2]
"t.a"() <5 : i32> : () -> ()
"t.a"() <"x"> {a = 1 : i8} : () -> ()
"t.a"() <#a> ({
^bb0:
}) : () -> ()
"t.a"() <() -> ()> : () -> ()
%0 = "t.a"() <{}> : () -> i32
%1 = "t.a"(%0) <unit> {} : (i32) -> i32
%2 = "t.a"(%0) : (i32) -> i32
"t.a"() <affine_map<(d0) -> (d0)>> {m = affine_map<(d0) -> (d0)>} : () -> ()
"t.a"() ({
  "t.b"()[^x, ^x] : () -> ()
^x:
  "t.b"()[^y, ^x] : () -> ()
^y:
  "t.b"()[^x, ^y, ^y] : () -> ()
}) : () -> ()
