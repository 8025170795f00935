package pgserver

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// installCommand is the one line that installs PostgreSQL on this system; major 0 means any.
func installCommand(major int) string {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		release = nil
	}
	return installCommandFor(runtime.GOOS, string(release), major)
}

// installCommandFor reads the ID and ID_LIKE lines of os-release(5).
func installCommandFor(goos, osRelease string, major int) string {
	suffix := func(separator string) string {
		if major == 0 {
			return ""
		}
		return separator + strconv.Itoa(major)
	}
	if goos == "darwin" {
		if major == 0 {
			return "brew install postgresql@17"
		}
		return "brew install postgresql" + suffix("@")
	}
	for line := range strings.Lines(osRelease) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
			switch id {
			case "debian", "ubuntu":
				return "sudo apt-get install -y postgresql" + suffix("-")
			case "fedora", "rhel", "centos":
				return "sudo dnf install -y postgresql" + suffix("") + "-server"
			case "alpine":
				return "apk add postgresql" + suffix("")
			case "arch":
				return "sudo pacman -S postgresql"
			case "suse", "opensuse":
				return "sudo zypper install -y postgresql" + suffix("") + "-server"
			}
		}
	}
	return "see https://www.postgresql.org/download/"
}
