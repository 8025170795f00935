// Package title cleans and compares novel titles, and makes slugs from them.
//
// Two titles name the same novel when their Fold is equal. Fold is the canonical caseless match of the Unicode Standard
// (section 3.13, definition D145) on the cleaned title: white space trimmed and collapsed, then NFD, full case folding
// (status C and F of CaseFolding.txt), NFC. Accents, punctuation, zero-width characters and compatibility forms
// (full-width letters, ligatures without case folding) distinguish titles.
//
// White space is exactly the characters with the Unicode property White_Space. U+200B ZERO WIDTH SPACE, U+2060 WORD
// JOINER and U+FEFF are not white space.
//
// Runs of more than 30 combining marks get a U+034F from x/text (the Stream-Safe
// Text Format of UAX #15); only inside such runs may two canonically equivalent
// spellings fold apart.
package title
