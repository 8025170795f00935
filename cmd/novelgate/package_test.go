package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestPackageFiles: the files of packages that the commands and flags determine. It writes them to the directory
// NOVELGATE_DIST, where make dist takes them, otherwise to a temporary one.
func TestPackageFiles(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("NOVELGATE_DIST"), t.TempDir())
	parser, err := kong.New(&program{}, kong.Name("novelgate"), kong.Vars{"data_dir": "/var/lib/novelgate", "version": ""})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"novelgate.env": settingsFile(parser.Model.Node),
		"novelgate.1":   manPage(parser.Model.Node),
	}
	files["novelgate.bash"], files["_novelgate"], files["novelgate.fish"] = completions(parser.Model.Node)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	help, _, _ := runHere("serve", "--help")
	for _, variable := range regexp.MustCompile(`\$(NOVELGATE_\w+)`).FindAllStringSubmatch(help, -1) {
		if !strings.Contains(files["novelgate.env"], "\n#"+variable[1]+"=") {
			t.Errorf("novelgate.env lacks %s", variable[1])
		}
	}
	if !strings.Contains(files["novelgate.env"], "single quotes") {
		t.Error("novelgate.env does not say that a shell needs quotes around &")
	}
	if line := regexp.MustCompile(`(?m)^[^#\n].*`).FindString(files["novelgate.env"]); line != "" {
		t.Errorf("novelgate.env sets something: %s", line)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		if heading := ".SS " + leaf.Path() + "\n"; !strings.Contains(files["novelgate.1"], heading) {
			t.Errorf("the man page lacks %q", heading)
		}
	}
	for _, shell := range [][]string{
		{"bash", "-c", `. ./novelgate.bash; COMP_WORDS=($0); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _novelgate; echo "${COMPREPLY[*]}"`},
		{"zsh", "-c", `_describe() { print -l -- ${found%%:*} | grep -e "^$words[-1]" }; words=(${=0}); CURRENT=$#words; . ./_novelgate`},
		{"fish", "-c", `source novelgate.fish; complete --do-complete $argv | string split -f 1 \t`},
	} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		for line, want := range map[string]string{
			"novelgate ser":                             "serve",
			"novelgate serve --ops":                     "--ops-listen",
			"novelgate serve --log-level info --site-l": "--site-logo",
			"novelgate novel app":                       "approve",
			"novelgate novel approve --rea":             "--reason",
		} {
			cmd := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], line)...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); strings.TrimSpace(string(out)) != want || err != nil {
				t.Errorf("%s completes %q with %q, %v; want %q", shell[0], line, out, err, want)
			}
		}
	}
}

// settingsFile returns the environment file of the unit: every variable of serve, as a comment with its default.
func settingsFile(root *kong.Node) string {
	var b strings.Builder
	b.WriteString(`# Settings of Novelgate, each with its default. After a change: systemctl restart novelgate
# Other directories than /var/lib/novelgate also need ReadWritePaths= in the unit: systemctl edit novelgate
# Put values with blanks or signs such as & into single quotes: commands also read this file with a shell.

# no: an upgrade of the package does not restart running services.
#RESTART_ON_UPGRADE=yes
`)
	for _, command := range root.Children {
		if command.Name != "serve" {
			continue
		}
		for _, flag := range command.Flags {
			initial := flag.Default
			if flag.IsBool() {
				initial = "false"
			}
			if len(flag.Envs) > 0 {
				fmt.Fprintf(&b, "\n# %s\n#%s=%s\n", flag.Help, flag.Envs[0], initial)
			}
		}
	}
	return b.String()
}

// manPage returns novelgate(1).
func manPage(root *kong.Node) string {
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace
	var b strings.Builder
	b.WriteString(`.TH NOVELGATE 1
.SH NAME
novelgate \- import novels and comments from partner platforms
.SH SYNOPSIS
.B novelgate
.I COMMAND
.RI [ FLAGS ]
.SH COMMANDS
Flags name their environment variables.
`)
	for _, leaf := range root.Leaves(true) {
		fmt.Fprintf(&b, ".SS %s\n\\&%s\n", leaf.Path(), escape(leaf.Help))
		for _, argument := range leaf.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n\\&%s\n", escape(argument.Summary()), escape(argument.Help))
		}
		for _, flag := range leaf.Flags {
			fmt.Fprintf(&b, ".TP\n.B %s\n\\&%s\n", escape(flag.String()), escape(kong.DefaultHelpValueFormatter(flag.Value)))
		}
	}
	b.WriteString(`.SH FILES
.TP
.I /etc/novelgate/novelgate.env
Settings of the services that systemd runs, as environment variables.
.TP
.I /etc/novelgate/NAME.env
Other settings of the further replica novelgate@NAME.service: at least NOVELGATE_LISTEN and NOVELGATE_OPS_LISTEN.
.TP
.I /var/lib/novelgate
Data of the embedded PostgreSQL server, and the signer directory of the ledger.
.SH EXIT STATUS
0: done; 1: refused or failed; 80: the command line is wrong.
`)
	return b.String()
}

// completions returns the scripts for bash, zsh and fish. They find the command in the words before the cursor, and
// offer its subcommands and flags.
func completions(root *kong.Node) (bash, zsh, fish string) {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	var paths []string
	var bashCases, zshCases, fishLines strings.Builder
	err := kong.Visit(root, func(visited kong.Visitable, next kong.Next) error {
		node, ok := visited.(*kong.Node)
		if !ok || node.Hidden {
			return nil
		}
		path := quote(node.Path())
		if node != root {
			paths = append(paths, path)
		}
		var words, described []string
		at := "complete -c novelgate -n " + quote("__novelgate_at "+path)
		for _, child := range node.Children {
			words = append(words, child.Name)
			described = append(described, quote(child.Name+":"+child.Help))
			fmt.Fprintf(&fishLines, "%s -f -a %s -d %s\n", at, child.Name, quote(child.Help))
		}
		for _, flag := range node.Flags {
			words = append(words, "--"+flag.Name)
			described = append(described, quote("--"+flag.Name+":"+flag.Help))
			needs := ""
			if !flag.IsBool() {
				needs = " -r"
			}
			fmt.Fprintf(&fishLines, "%s -l %s%s -d %s\n", at, flag.Name, needs, quote(flag.Help))
		}
		fmt.Fprintf(&bashCases, "\t%s) words=%s ;;\n", path, quote(strings.Join(words, " ")))
		fmt.Fprintf(&zshCases, "\t%s) found=(%s) ;;\n", path, strings.Join(described, " "))
		return next(nil)
	})
	if err != nil {
		panic(err) // no visit fails
	}
	walk := `case "${at:+$at }$word" in ` + strings.Join(paths, "|") + `) at="${at:+$at }$word" ;; esac`
	bash = `_novelgate() {
	local at= word words
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		` + walk + `
	done
	case "$at" in
` + bashCases.String() + `	esac
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _novelgate novelgate
`
	zsh = `#compdef novelgate
local at word
local -a found
for word in "${(@)words[2,CURRENT-1]}"; do
	` + walk + `
done
case "$at" in
` + zshCases.String() + `esac
_describe -o novelgate found || _files
`
	fish = `function __novelgate_at
	set -l at
	for word in (commandline -opc)[2..]
		contains -- (string trim "$at $word") ` + strings.Join(paths, " ") + `
		and set at (string trim "$at $word")
	end
	test "$at" = "$argv"
end
` + fishLines.String()
	return bash, zsh, fish
}
