// Distinct attributes are numbered in the order in which they print, not as they are written.
"t.a"() {z = distinct[7]<1 : i32>, a = distinct[9]<1 : i32>} : () -> ()
"t.b"() <{p = distinct[9]<1 : i32>, q = [distinct[3]<>, distinct[7]<1 : i32>]}> : () -> ()
