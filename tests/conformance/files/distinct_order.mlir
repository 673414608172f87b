// Distinct attributes are numbered as they print: regions come before the attributes behind them.
"t.a"() <{p = distinct[7]<>}> ({
  "t.b"() {a = distinct[5]<>} : () -> ()
  "t.b"() ({
    "t.c"() {a = distinct[6]<>, b = distinct[7]<>} : () -> ()
  }) {a = distinct[4]<>} : () -> ()
}) {a = distinct[3]<>} : () -> ()
