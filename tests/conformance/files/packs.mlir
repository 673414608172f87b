// Several results under one name, numbers at a use, unnamed results, a single result in parentheses, function types as results.
%p:3 = "t.p"() : () -> (i32, f32, index)
%q, %r:2 = "t.q"(%p, %p#1, %p#2) : (i32, f32, index) -> (i32, i32, i32)
"t.u"(%p#0, %r#1, %r, %q) : (i32, i32, i32, i32) -> ()
"t.v"() : () -> (i32, i32)
%single = "t.w"() : () -> (i32)
%f = "t.f"() : () -> (() -> ())
%g = "t.g"() : () -> ((i32) -> i32)
"t.z"(%f) : (() -> ()) -> ()
