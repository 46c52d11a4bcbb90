/*
 * hex.h: hexadecimal digits.
 */
#ifndef WEFT_HTTP_HEX_H
#define WEFT_HTTP_HEX_H

/* The value of a digit, of either case; -1 if the character is none. */
static inline int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

#endif
