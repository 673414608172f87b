// Brackets in comments open nothing, wherever a comment may stand.
"t.a"() {a = distinct[1] //<5>
<unit>, b = tensor //<f64>
<f32>, c = dense // <2>
<1> : tensor<1xi8>, d = array // <i8: 3>
<i8>} : () -> ()
%0 = "t.b"() : () -> i32 // (x) loc("y")
%1 = "t.c"(%0) : (i32) -> i32 // <
%2 // =
= "t.d"() : () -> i32
"t.a"() {a = distinct // [2]
[1]<>} : () -> ()
