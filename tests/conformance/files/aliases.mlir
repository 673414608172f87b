// Aliases of types, attributes and locations; before and behind their use, between operations, in each other.
!element = f32
!t = tensor<4x!element>
#one = 1 : i32
#both = [#one, {t = !t}]
"t.a"() {a = #one, b = #both, c = !t} : () -> !t loc(#where)
#where = loc("x.py":3:4)
!f = (!t) -> !t
"t.b"() {f = !f} : () -> ()
