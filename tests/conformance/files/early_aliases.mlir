// Every kind of alias before its definition: MLIR takes only locations so, this project takes all.
"t.a"() {a = #late, t = !late} : () -> !late loc(#second)
#late = [#later, !later]
!late = tensor<2x!later>
#later = "text"
!later = bf16
#second = loc(callsite(#first at "f":1:2))
#first = loc("name")
