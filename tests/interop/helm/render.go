// Renders a chart with the engine Helm uses (text/template) and those functions of Helm that the
// chart uses. Standard input: {"templates": {path: text}, "scope": {...}}; output: {path: text}.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"
)

type order struct {
	Templates map[string]string
	Scope     map[string]any
}

func main() {
	var wanted order
	check(json.NewDecoder(os.Stdin).Decode(&wanted))
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(functions(root))
	for path, text := range wanted.Templates {
		template.Must(root.New(path).Parse(text))
	}
	rendered := map[string]string{}
	for path := range wanted.Templates {
		var text strings.Builder
		check(root.ExecuteTemplate(&text, path, wanted.Scope))
		rendered[path] = text.String()
	}
	check(json.NewEncoder(os.Stdout).Encode(rendered))
}

func functions(root *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, scope any) (string, error) {
			var text strings.Builder
			err := root.ExecuteTemplate(&text, name, scope)
			return text.String(), err
		},
		"toJson": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"nindent": func(count int, text string) string {
			pad := "\n" + strings.Repeat(" ", count)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"quote": func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"default": func(other, value any) any {
			if value == nil || value == "" {
				return other
			}
			return value
		},
		"until": func(count int) []int {
			numbers := make([]int, count)
			for i := range numbers {
				numbers[i] = i
			}
			return numbers
		},
		"int": func(value any) int { return int(value.(float64)) },
		"trunc": func(count int, text string) string {
			return text[:min(count, len(text))]
		},
		"trimSuffix": func(end, text string) string { return strings.TrimSuffix(text, end) },
		"sha256sum":  func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"fail":       func(reason string) (string, error) { return "", errors.New(reason) },
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
