"t.a"() {a = dense_resource<k1> : tensor<1xi32>, b = dense_resource<"k 2"> : tensor<1xi32>} : () -> ()
"t.a"() {a = dense_resource<missing> : tensor<1xi32>} : () -> ()
{-#
  dialect_resources: {
    builtin: {
      "k 2": "0x0400000001000000", 
      k1: "0x04000000FF000000",
      unused: "0x0400000002000000"
    }
  },
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(cse)",
      verify_each: true,
      blob: "0x0400000002000000"
    },
    other: { x: false }
  }
#-}
