package request_test

import (
	"strconv"
	"strings"
	"testing"

	"novelgate/commands/request"
)

func TestCoverURL(t *testing.T) {
	t.Parallel()
	accepted := []string{
		"",
		"https://covers.example.com/1.jpg",
		"HTTPS://Covers.Example.com/1.jpg",
		"https://covers.example.com",
		"https://covers.example.com.",
		"https://covers.example.com:8443/a%20b.jpg?x=1&y=[2]#part",
		"https://covers.example.com/a?u=https://localhost/",
		"https://my_bucket.s3.amazonaws.com/x.png",
		"https://bücher.example/ümlaut.png",
		"https://xn--bcher-kva.example/x",
		"https://93.184.215.14/x.jpg",
		"https://8.8.8.8:443/",
		"https://[2606:4700:4700::1111]/x.jpg",
		"https://1.example.com/", "https://0x7f.example/", "https://10.com/",
		"https://localhost.example.com/", "https://notlocalhost.com/", "https://internal.example.com/",
	}
	refused := []string{
		" ", "x", "/1.jpg", "//covers.example.com/1.jpg", "covers.example.com/1.jpg",
		"http://covers.example.com/1.jpg", "ftp://covers.example.com/", "data:image/png;base64,AA==", "javascript:alert(1)",
		"https:", "https:/covers.example.com", "https://", "https:///covers.example.com", "https:covers.example.com",
		"https://:443/",
		" https://covers.example.com/", "https://covers.example.com/ ", "https://covers.example.com/a b",
		"https://covers.example.com/\t",
		"https://covers.example.com/\u00a0", "https://covers.example.com/\u0085", "https://covers.example.com/\"onload=",
		"https://covers.example.com/<b>", "https://covers.example.com\\@127.0.0.1/", "https://covers.example.com/%zz",
		"https://user@covers.example.com/", "https://user:pass@covers.example.com/", "https://@covers.example.com/",
		"https://covers.example.com:0/", "https://covers.example.com:65536/", "https://covers.example.com:x/",
		"https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://localhost:8443/", "https://a.localhost/",
		"https://a.localhost./", "https://printer.local/", "https://db.internal/", "https://metadata.google.internal/",
		"https://intranet/", "https://a/", "https://router.lan/", "https://nas.home.arpa/", "https://x.localdomain/",
		"https://ｌｏｃａｌｈｏｓｔ/", "https://a.ⓛocalhost/", "https://a。localhost/",
		"https://a..example.com/", "https://.example.com/", "https://example.com../", "https://a b.com/",
		"https://exa%6dple.com/",
		"https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 130) + "com/",
		"https://127.0.0.1/", "https://127.0.0.1./", "https://127.1/", "https://2130706433/", "https://0x7f000001/",
		"https://0x7f.1/",
		"https://0177.0.0.1/", "https://0x/", "https://127.0.0.0x1/", "https://１２７.０.０.１/", "https://127。0。0。1/",
		"https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/",
		"https://169.254.169.254/",
		"https://100.64.0.1/", "https://0.0.0.0/", "https://0/", "https://255.255.255.255/", "https://224.0.0.1/",
		"https://240.0.0.1/",
		"https://192.0.2.1/", "https://198.51.100.7/", "https://203.0.113.9/", "https://198.18.0.1/", "https://192.0.0.8/",
		"https://8.8.8/", "https://8.8.8.8.8/", "https://256.1.1.1/", "https://134744072/", "https://08.8.8.8/",
		"https://foo.0x4/", "https://foo.09/",
		"https://[::1]/", "https://[::]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
		"https://[2606:4700:4700::1111%25eth0]/",
		"https://[fc00::1]/", "https://[fd12:3456::1]/", "https://[ff02::1]/", "https://[2001:db8::1]/", "https://[3fff::1]/",
		"https://[::ffff:127.0.0.1]/", "https://[::ffff:8.8.8.8]/", "https://[::7f00:1]/", "https://[64:ff9b::7f00:1]/",
		"https://[2002:7f00:1::]/", "https://[2001:0:7f00:1::]/", "https://[127.0.0.1]/", "https://[::1/", "https://::1/",
		"https://[fec0::1]/", "https://[100::1]/", "https://[example.com]/",
	}
	check := func(url string) error {
		_, err := request.DecodeNovel([]byte(novel(`"coverUrl":` + jsonString(url))))
		return err
	}
	for _, url := range accepted {
		if err := check(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range refused {
		err := check(url)
		if err == nil {
			t.Errorf("%q is accepted", url)
			continue
		}
		if fields := refusal(t, err).Fields; len(fields) != 1 || fields[0].Field != "coverUrl" {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, port := range []string{"0", "65536", "99999999999999999999"} {
		if err := check("https://covers.example.com:" + port); err == nil || !strings.Contains(err.Error(), "65,535") {
			t.Errorf("port %s: %v", port, err)
		}
	}
}

// jsonString quotes s; the tests have no character that Go and JSON quote differently
// but these.
func jsonString(s string) string {
	s = strings.ReplaceAll(strconv.Quote(s), `\x`, `\u00`)
	return s
}
