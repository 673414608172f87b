"""Operations that have a library kernel of their own stay whole and become `kernel` ops."""
