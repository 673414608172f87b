// Names of operations, symbols and attributes; scoping; values used before they are defined; comments.
"nodot"() : () -> ()
"weird name \22 \\ \C3\A9"() : () -> ()
"t.a"() <{}> ({}) {} : () -> ()
"t.a"() <{same = 1 : i32}> {same = 2 : i32} : () -> ()  // properties and attributes apart
"t.a"() {loc, i32, true = 1 : i8, f32 = 2 : i8, "quoted name" = 3 : i8, module = 4 : i8, tensor = 5 : i8, dotted.name.x = 6 : i8, _u, unit} : () -> ()
"t.use"(%early) : (i32) -> ()
%early = "t.def"() : () -> i32
"t.r"() ({
  %same = "t.a"() : () -> i32
  "t.use"(%same, %outer, %early) : (i32, i64, i32) -> ()
}, {
  %same = "t.a"() : () -> i32
}) : () -> ()
%outer = "t.def"() : () -> i64
%a-b.c$d_1 = "t.def"() {s = @sym::@"nested one"::@_x} : () -> i64
"t.use"(%a-b.c$d_1) : (i64) -> ()
