"""The vectorising map: a function of one example becomes a function of many, without a loop over them."""
