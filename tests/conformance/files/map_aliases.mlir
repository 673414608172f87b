func.func private @f(%a: i32 {a.m = affine_map<(d0) -> (d0 + 1)>}) attributes {z.z = affine_map<(d0) -> (d0 + 2)>}
func.func @g(%a: memref<4xf32, affine_map<(d0) -> (d0 + 5)>>) {
  %0 = "t.a"(%a) <{m = affine_map<(d0) -> (d0 + 5)>, t = tensor<4xf32, affine_map<(d0) -> (d0 + 7)>>}> {tu = tuple<memref<4xf32, affine_map<(d0) -> (d0 + 9)>>>, f = () -> memref<4xf32, affine_map<(d0) -> (d0 + 10)>>, d = {x = affine_map<(d0) -> (d0 + 15)>}, e = "abc" : memref<4xf32, affine_map<(d0) -> (d0 + 16)>>, g= #d.x<affine_map<(d0) -> (d0 + 17)>> : memref<4xf32, affine_map<(d0) -> (d0 + 18)>>, h = dense<1> : tensor<1xi32, affine_map<(d0) -> (d0 + 19)>>, o = distinct[3]<affine_map<(d0) -> (d0 + 20)>>, q = vector<4xf32>, ty = tensor<*xf32>, mm = memref<*xf32, 1>} : (memref<4xf32, affine_map<(d0) -> (d0 + 5)>>) -> i32
  func.call @h(%0) : (i32) -> ()
  return
}
func.func private @h(i32)
module @n attributes {a.b = affine_map<(d0) -> (d0 + 30)>} {}
