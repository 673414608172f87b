// A name that a later block gives to its argument is free before, also inside.
"t.a"() ({
  "t.b"() ({
  ^x(%a: i32):
    "t.c"(%a) : (i32) -> ()
  }) : () -> ()
  "t.d"()[^y] : () -> ()
^y(%a: i64):
  "t.c"(%a) : (i64) -> ()
}) : () -> ()
"t.a"() ({
  "t.d"()[^y] : () -> ()
^z:
  "t.b"() ({
    "t.c"(%a) : (i64) -> ()
  }) : () -> ()
^y(%a: i64):
  "t.d"()[^z] : () -> ()
}) : () -> ()
