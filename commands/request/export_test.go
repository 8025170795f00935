package request

// FindHTML is findHTML.
var FindHTML = findHTML
