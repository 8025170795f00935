package request_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"novelgate/commands/request"
)

// chapter decodes a chapterNumber; ok is false when it is refused.
func chapter(t testing.TB, number string) (text string, ok bool) {
	t.Helper()
	p, err := request.DecodePost([]byte(post(`"chapterNumber":`+number)), received)
	if err != nil {
		if fields := refusal(t, err).Fields; len(fields) != 1 || fields[0].Field != "chapterNumber" ||
			len(fields[0].Message) > 200 {
			t.Errorf("%.60s: %v", number, err)
		}
		return "", false
	}
	return p.Chapter.String(), true
}

func TestChapterNumber(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 30_000)
	for number, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0.00e5": "0", "0e999999999999999999999": "0", "0e-999999999": "0",
		"1": "1", "1.0": "1", "1.50": "1.5", "10": "10", "100.25": "100.25", "0.5": "0.5", "0.05": "0.05",
		"1e2": "100", "1E+2": "100", "1e02": "100", "150e-2": "1.5", "0.1e7": "1000000", "1e6": "1000000",
		"1000000.000":                          "1000000",
		"999999.99999999999999999999":          "999999.99999999999999999999",
		"1e-20":                                "0.00000000000000000001",
		"9007199254740993e-12":                 "9007.199254740993",
		"0.1000000000000000055511151231257827": "", // 34 digits
		"1e-21":                                "",
		"1000000.00000000000000000001":         "",
		"1000001":                              "", "1e7": "", "1e999999999999999999999": "", "1e-999999999999999999999": "",
		"-1": "", "-1e-5": "",
		"0." + zeros + "1e30001": "1",
		"1" + zeros + "e-30000":  "1",
		"1" + zeros:              "",
		"0." + zeros + "1":       "",
		"1." + zeros:             "1",
	} {
		got, ok := chapter(t, number)
		if got != want || ok != (want != "") {
			t.Errorf("chapterNumber %.60s: %q, %v, want %q", number, got, ok, want)
		}
	}
}

// TestChapterNumberIsExact compares with arbitrary-precision fractions.
func TestChapterNumberIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?`).Draw(rt, "number")
		value, _ := new(big.Rat).SetString(number)
		fine := new(big.Rat).Mul(value, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(20), nil)))
		valid := value.Sign() >= 0 && value.Cmp(big.NewRat(1_000_000, 1)) <= 0 && fine.IsInt()

		text, ok := chapter(t, number)
		if ok != valid {
			rt.Fatalf("%s: accepted is %v, want %v", number, ok, valid)
		}
		if !ok {
			return
		}
		want := value.FloatString(20)
		if want = strings.TrimRight(strings.TrimRight(want, "0"), "."); strings.Contains(value.FloatString(20), ".") &&
			text != want {
			rt.Fatalf("%s: %s, want %s", number, text, want)
		}
	})
}
