// MLIR's own forms of common operations.
module @outer attributes {a.b = 1 : i32} {
  func.func private @declared(i32, tensor<?xf32>) -> (f32, f32)
  func.func @f(%a: i32 {x.y = "z"}, %b: i1) -> (i32 {x.r}) attributes {k.l} {
    %c = arith.constant 42 : i32
    %d = arith.constant dense<1.0> : tensor<2xf32>
    %t = arith.constant true
    cf.cond_br %b, ^bb1(%a : i32), ^bb2
  ^bb1(%x: i32):
    cf.br ^bb3(%x, %c : i32, i32)
  ^bb2:
    cf.br ^bb3(%c, %c : i32, i32)
  ^bb3(%y: i32, %z: i32):
    return %y : i32
  }
  func.func nested @g() {
    %0:2 = func.call @two() : () -> (i32, i32)
    func.return
  }
  func.func private @two() -> (i32, i32)
  module {
  }
}
