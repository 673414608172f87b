// Inherent attributes may stand among the others, in older text: they are moved to the properties. Defaults need not be given.
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%a: i32):
    %0 = "x.add"(%a, %a) {a.note = "kept"} : (i32, i32) -> i32
    %1 = "x.constant"() {value = 7 : i32, z.z} : () -> i32
    "func.return"(%0) : (i32) -> ()
  }) {a.first, function_type = (i32) -> i32, sym_name = "f", sym_visibility = "private"} : () -> ()
  "func.func"() <{function_type = (i32) -> i32, sym_name = "g"}> ({
  ^bb0(%a: i32):
    %0 = "func.call"(%a) {callee = @f} : (i32) -> i32
    "x.op"() <{inner = 1 : i32, same = 2 : i32}> {outer = 3 : i32, same = 4 : i32} : () -> ()
    "func.return"(%0) : (i32) -> ()
  }) {arg_attrs = [{a.b}]} : () -> ()
}) {sym_name = "inherent"} : () -> ()
