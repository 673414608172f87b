autocmd BufRead,BufNewFile *.mlir,*.ir setfiletype mlir
