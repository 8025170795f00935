package pages

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"
)

// MaxLogo is the maximum size of a logo, in bytes.
const MaxLogo = 256 << 10

const (
	logoHeight   = 32 // on a page, in pixels
	maxLogoRatio = 10 // of width to height
)

// Logo is the picture in the header, in place of the name. It is served as an asset, so a browser that opens an SVG
// runs none of its scripts.
type Logo struct {
	asset asset
	Width int // on a page, in pixels
}

var (
	errLogoSize  = fmt.Errorf("the picture must have at most %d KiB", MaxLogo>>10)
	errLogoType  = errors.New("the picture must be an SVG or PNG file")
	errLogoShape = errors.New("the picture must be at most ten times as wide as high; an SVG must say its " +
		"shape: viewBox, or width and height")
)

// NewLogo returns a logo with the content of an SVG or PNG file.
func NewLogo(content []byte) (*Logo, error) {
	if len(content) > MaxLogo {
		return nil, errLogoSize
	}
	extension := "png"
	var width, height float64
	if config, err := png.DecodeConfig(bytes.NewReader(content)); err == nil {
		width, height = float64(config.Width), float64(config.Height)
	} else {
		extension = "svg"
		if width, height, err = svgSize(content); err != nil {
			return nil, fmt.Errorf("%w: %w", errLogoType, err)
		}
	}
	ratio := width / height
	if !(ratio > 0 && ratio <= maxLogoRatio) { // also if it is not a number
		return nil, errLogoShape
	}
	return &Logo{newAsset("logo."+extension, content), max(1, int(math.Round(logoHeight*ratio)))}, nil
}

// svgSize returns the size in the attributes of an SVG document, zero without one. It fails if the document is not SVG.
func svgSize(content []byte) (width, height float64, err error) {
	decoder, root := xml.NewDecoder(bytes.NewReader(content)), ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && root == "svg" {
			return width, height, nil
		} else if err != nil {
			return 0, 0, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || root != "" {
			continue
		}
		if root = start.Name.Local; root != "svg" || start.Name.Space != "http://www.w3.org/2000/svg" {
			return 0, 0, fmt.Errorf("it begins with <%s>", root)
		}
		attributes := map[string]string{}
		for _, a := range start.Attr {
			attributes[a.Name.Local] = a.Value
		}
		width, _ = strconv.ParseFloat(strings.TrimSuffix(attributes["width"], "px"), 64) // 0 for a width in other units
		height, _ = strconv.ParseFloat(strings.TrimSuffix(attributes["height"], "px"), 64)
		if box := strings.Fields(strings.ReplaceAll(attributes["viewBox"], ",", " ")); len(box) == 4 {
			width, _ = strconv.ParseFloat(box[2], 64) // 0 if it is not a number
			height, _ = strconv.ParseFloat(box[3], 64)
		}
	}
}
