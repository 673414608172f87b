setlocal commentstring=//\ %s
setlocal iskeyword+=.
setlocal shiftwidth=2 softtabstop=2 expandtab
