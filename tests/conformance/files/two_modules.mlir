module {
}
module @second {
}
