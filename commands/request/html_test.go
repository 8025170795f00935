package request_test

import (
	"strings"
	"testing"

	"novelgate/commands/request"
)

func TestFindHTML(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"<b>":                               "<b>",
		"bold <B>word</B>":                  "<b>",
		"</b>":                              "</b>",
		"</ b>":                             "",
		"< b>":                              "",
		"</b foo>":                          "</b>",
		"<br/>":                             "<br>",
		"<br />":                            "<br>",
		"<a\nhref='x'>":                     "<a>",
		"<a\thref=x>":                       "<a>",
		"<a/href=x>":                        "<a>",
		"<IMG SRC=x ONERROR=alert(1)>":      "<img>",
		"<image src=x onerror=y>":           "<image>",
		"<svg onload=alert(1)>":             "<svg>",
		"<svg/onload=alert(1)>":             "<svg>",
		"<math>":                            "<math>",
		"<script>":                          "<script>",
		"<textarea>a</textarea>":            "<textarea>",
		"<plaintext>":                       "<plaintext>",
		"<selectedcontent>":                 "<selectedcontent>",
		"<blockquote>":                      "<blockquote>",
		"<font color=red>":                  "<font>",
		"<center>":                          "<center>",
		"<marquee>":                         "<marquee>",
		"<h1>":                              "<h1>",
		"<h7>":                              "",
		"<!-- x -->":                        "<!-- comment -->",
		"<!--":                              "<!-- comment -->",
		"<!-->":                             "<!-- comment -->",
		"<!doctype html>":                   "<!DOCTYPE>",
		"<!DOCTYPE html>":                   "<!DOCTYPE>",
		"<!DOCTYPE html":                    "",
		"<!foo>":                            "<!declaration>",
		"<!foo":                             "",
		"<!>":                               "",
		"<!->":                              "",
		"<!1>":                              "",
		"<!":                                "",
		"<![CDATA[x]]>":                     "<![CDATA[",
		"<![CDATA[":                         "<![CDATA[",
		"<![x>":                             "",
		"<?php echo 1 ?>":                   "<?instruction>",
		"<?xml version='1.0'?>":             "<?instruction>",
		"<?php":                             "",
		"<?>":                               "",
		"what <?":                           "",
		"a < b":                             "",
		"a<b":                               "",
		"a<b && c>d":                        "<b>",
		"a<b&&c>d":                          "",
		"<3":                                "",
		"</3":                               "",
		"</3>":                              "",
		"</>":                               "",
		"<>":                                "",
		"<System>":                          "",
		"<System foo='<b>'>":                "",
		"<System><i>":                       "<i>",
		"<<i>":                              "<i>",
		"<- back":                           "",
		"<--":                               "",
		"x<y>z":                             "",
		"<my-widget>":                       "",
		"<b-c>":                             "",
		"<b:c>":                             "",
		"<me@example.com>":                  "",
		"<https://example.com/a>":           "",
		"&amp; &lt;b&gt; &#60;":             "",
		"<b":                                "",
		"<b ":                               "",
		"<b <i <u":                          "",
		"x > y <b":                          "",
		"x > y <b and":                      "",
		"<b title=\"<i>":                    "",
		"<b\u00a0>":                         "",
		"<b\x00>":                           "",
		"<b\v>":                             "",
		"<ſ>":                               "",
		"<":                                 "",
		"</":                                "",
		"":                                  "",
		"plain text, 斗破苍穹":                  "",
		strings.Repeat("<", 1000):           "",
		"<selectedcontents>":                "",
		"<" + strings.Repeat("b", 99) + ">": "",
	} {
		what, found := request.FindHTML(in)
		if what != want || found != (want != "") {
			t.Errorf("FindHTML(%q) = %q, %v, want %q", in, what, found, want)
		}
	}
}

func FuzzFindHTML(f *testing.F) {
	for _, seed := range []string{
		"<b>x</b>", "<!-- x", "<!doctype html>", "<a href='>'>", "<System a=\"<i>\">", "<3 a<b",
		"<script><b>", "<![CDATA[x]]>", "<?php ?>", "</3>", "<svg/onload=x>", "<b title=\"",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		what, found := request.FindHTML(s)
		if found != (what != "") || found && !strings.HasPrefix(what, "<") {
			t.Errorf("FindHTML(%q) = %q, %v", s, what, found)
		}
		if escaped := strings.ReplaceAll(s, "<", "&lt;"); found {
			if _, found := request.FindHTML(escaped); found {
				t.Errorf("FindHTML(%q) finds markup in escaped text", escaped)
			}
		}
		if found && !strings.Contains(s, "<") {
			t.Errorf("FindHTML(%q) = %q without a '<'", s, what)
		}
	})
}
