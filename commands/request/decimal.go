package request

import (
	"fmt"
	"strings"

	"novelgate/internal/httpkit"
)

// Decimal is an exact decimal number in canonical text: digits without leading
// zeros, and, unless the value is whole, a point and digits without trailing zeros.
// Equal values have equal text: 1e2 and 100.0 are "100", -0 is "0", 1.50 is "1.5".
// The text is a valid JSON number and a valid PostgreSQL numeric.
type Decimal string

// String returns the canonical text.
func (d Decimal) String() string { return string(d) }

const (
	maxFraction = 20 // digits after the point
	// A value of 0.d1d2… × 10^7 is below 10,000,000; the maximum is 0.1 × 10^7.
	maxMagnitude = 7
	maxChapter   = "1,000,000"
	// A body is too short for digits that could balance a larger exponent.
	exponentBound = 1 << 40
)

// parseChapter reads a JSON number from 0 to 1,000,000 with at most 20 digits after the point. The cost is linear in
// the text, whatever the exponent. wrong is the error text, "" for a valid number.
func parseChapter(number string) (d Decimal, wrong string) {
	mantissa, exponent := number, ""
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		mantissa, exponent = number[:e], number[e+1:]
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")

	// The value is 0.DIGITS × 10^magnitude with no zero at either end of DIGITS.
	digits := whole + fraction
	magnitude := int64(len(whole)) + parseExponent(exponent)
	significant := strings.TrimLeft(digits, "0")
	magnitude -= int64(len(digits) - len(significant))
	significant = strings.TrimRight(significant, "0")

	switch n := int64(len(significant)); {
	case n == 0:
		return "0", ""
	case negative, magnitude > maxMagnitude, magnitude == maxMagnitude && significant != "1":
		return "", fmt.Sprintf("must be from 0 to %s, got %s", maxChapter, httpkit.Clip(number))
	case n-magnitude > maxFraction:
		return "", fmt.Sprintf("must have at most %d digits after the decimal point, got %s", maxFraction,
			httpkit.Clip(number))
	case magnitude <= 0:
		return Decimal("0." + strings.Repeat("0", int(-magnitude)) + significant), ""
	case n <= magnitude:
		return Decimal(significant + strings.Repeat("0", int(magnitude-n))), ""
	default:
		return Decimal(significant[:magnitude] + "." + significant[magnitude:]), ""
	}
}

// parseExponent reads the sign and digits after "e". The result is clamped to plus or minus exponentBound.
func parseExponent(s string) int64 {
	negative := strings.HasPrefix(s, "-")
	var n int64
	for _, c := range strings.TrimLeft(s, "+-") {
		if n = n*10 + int64(c-'0'); n > exponentBound {
			n = exponentBound
			break
		}
	}
	if negative {
		return -n
	}
	return n
}
