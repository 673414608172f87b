// Dialect attributes and types: any text in balanced brackets.
"t.a"() {a = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, b = #stablehlo<comparison_direction LT>, c = #d.x<"a > b", {c = [1, (2)]}>, d = #d<plain>, e = #d<with<body>>, f = #d.n<<<<<<<<<deep>>>>>>>>>, g = #d.n<->>, h = #d.a : tensor<4xi32>, i = !d.t<!d.u<"x">, 4>, j = !d<spaced  out>, k = #d.n<// no comment here
>} : () -> !d.result<[4 x ?]>
