package main

import (
	"fmt"
	"io"
	"os"

	"novelgate/readapi/pages"
)

// siteFlags configure the pages.
type siteFlags struct {
	Name    string `name:"site-name" env:"NOVELGATE_SITE_NAME" default:"Novelgate" placeholder:"NAME" help:"Name of the platform on its pages (default: ${default})."`
	Logo    string `name:"site-logo" env:"NOVELGATE_SITE_LOGO" type:"existingfile" placeholder:"FILE" help:"Picture in the header of the pages, in place of the name: SVG or PNG, at most 256 KiB."`
	Imprint string `name:"site-imprint" env:"NOVELGATE_SITE_IMPRINT" placeholder:"URL" help:"Address of the imprint, for the foot of the pages."`
	Terms   string `name:"site-terms" env:"NOVELGATE_SITE_TERMS" placeholder:"URL" help:"Address of the terms of use, for the foot of the pages."`
	Covers  string `env:"NOVELGATE_COVERS" default:"direct" enum:"direct,none" placeholder:"HOW" help:"direct: browsers load covers from the hosts of partners; none: pages show the first letter of the title (default: ${default})."`

	logo *pages.Logo // from the file of --site-logo; set by validate
}

func (f *siteFlags) validate() error {
	for flag, address := range map[string]string{"--site-imprint": f.Imprint, "--site-terms": f.Terms} {
		if _, err := parseHTTP(flag, address); address != "" && err != nil {
			return err
		}
	}
	return f.readLogo()
}

// readLogo reads the file of --site-logo.
func (f *siteFlags) readLogo() error {
	if f.Logo == "" {
		return nil
	}
	file, err := os.Open(f.Logo)
	if err != nil {
		return fmt.Errorf("--site-logo: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read from
	content, err := io.ReadAll(io.LimitReader(file, pages.MaxLogo+1))
	if err == nil {
		f.logo, err = pages.NewLogo(content)
	}
	if err != nil {
		return fmt.Errorf("--site-logo %s: %w", f.Logo, err)
	}
	return nil
}

func (f *siteFlags) site(sandbox bool) pages.Site {
	return pages.Site{
		Name: f.Name, Logo: f.logo, Imprint: f.Imprint, Terms: f.Terms, NoCovers: f.Covers == "none", Sandbox: sandbox,
	}
}
