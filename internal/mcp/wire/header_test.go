package wire

import (
	"net/http"
	"strings"
	"testing"
)

func TestHeaderNamesAreCanonical(t *testing.T) {
	for _, name := range []string{HeaderVersion, HeaderSession, HeaderMethod, HeaderName, HeaderParamPrefix,
		HeaderLastEventID} {
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s is not canonical", name)
		}
	}
}

func TestEncodeHeader(t *testing.T) {
	tests := []struct{ name, in, want string }{ // the table of the specification, and more
		{"plain", "us-west1", "us-west1"},
		{"empty", "", ""},
		{"space inside", "a b\tc", "a b\tc"},
		{"not ASCII", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{"padded", " padded ", "=?base64?IHBhZGRlZCA=?="},
		{"tab in front", "\tx", "=?base64?CXg=?="},
		{"newline", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"carriage return", "a\r\nSet-Cookie: x", "=?base64?YQ0KU2V0LUNvb2tpZTogeA==?="},
		{"DEL", "\x7f", "=?base64?fw==?="},
		{"looks encoded", "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"looks encoded, nearly", "=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"half of the marks", "=?base64?abc", "=?base64?abc"},
		{"upper case marks", "=?BASE64?abc?=", "=?BASE64?abc?="},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := EncodeHeader(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if back, err := DecodeHeader(test.want); err != nil || back != test.in {
				t.Errorf("%q came back as %q, %v", test.in, back, err)
			}
		})
	}
}

func TestDecodeHeader(t *testing.T) {
	tests := []struct {
		name, in, want string
		bad            bool
	}{
		{name: "encoded", in: "=?base64?SGVsbG8=?=", want: "Hello"},
		{name: "encoded nothing", in: "=?base64??=", want: ""},
		{name: "white space around", in: " \texport ", want: "export"},
		{name: "white space around what is encoded", in: " =?base64?SGVsbG8=?= ", want: "Hello"},
		{name: "no base64", in: "=?base64?SGV$bG8=?=", bad: true},
		{name: "no padding", in: "=?base64?SGVsbG8?=", bad: true},
		{name: "too much padding", in: "=?base64?SGVsbG8==?=", bad: true},
		{name: "trailing bits", in: "=?base64?SGVsbG9=?=", bad: true},
		{name: "URL alphabet", in: "=?base64?_-8=?=", bad: true},
		{name: "line end inside", in: "=?base64?SGVs\nbG8=?=", bad: true},
		{name: "not UTF-8", in: "=?base64?/w==?=", bad: true},
		{name: "upper case is literal", in: "=?BASE64?SGVsbG8=?=", want: "=?BASE64?SGVsbG8=?="},
		{name: "incomplete is literal", in: "=?base64?SGVsbG8=", want: "=?base64?SGVsbG8="},
		{name: "marks that overlap are literal", in: "=?base64?=", want: "=?base64?="},
		{name: "encoded twice is decoded once", in: EncodeHeader(EncodeHeader("é")), want: EncodeHeader("é")},
		{name: "not ASCII", in: "t é", bad: true},
		{name: "control character", in: "a\x01b", bad: true},
		{name: "line end", in: "a\nb", bad: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := DecodeHeader(test.in)
			if (err != nil) != test.bad || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"", "a", " a", "é", "=?base64?a?=", "=?base64?=", "\r\n", "a\x7f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := DecodeHeader(s); err == nil {
			got, _ := DecodeHeader(s)
			if again, err := DecodeHeader(EncodeHeader(got)); err != nil || again != got {
				t.Fatalf("%q decodes to %q and then to %q, %v", s, got, again, err)
			}
		}
		s = strings.ToValidUTF8(s, "?")
		coded := EncodeHeader(s)
		for i := range len(coded) {
			if coded[i] < ' ' && coded[i] != '\t' || coded[i] > '~' {
				t.Fatalf("%q is encoded as %q", s, coded)
			}
		}
		if got, err := DecodeHeader(coded); err != nil || got != s {
			t.Fatalf("%q came back as %q, %v", s, got, err)
		}
	})
}

func TestReservedMeta(t *testing.T) {
	for key, want := range map[string]bool{
		MetaVersion: true, MetaRelatedTask: true, "io.modelcontextprotocol/anything": true,
		"io.modelcontextprotocol": false, "com.example/key": false, MetaProgressToken: false, "ui": false, "": false,
	} {
		if ReservedMeta(key) != want {
			t.Errorf("%q: got %v", key, !want)
		}
	}
	if MetaClientCaps != "io.modelcontextprotocol/clientCapabilities" {
		t.Error(MetaClientCaps)
	}
}

func TestLogLevels(t *testing.T) {
	levels := []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	for i, level := range levels {
		for j, least := range levels {
			if LogLevelAtLeast(level, least) != (i >= j) {
				t.Errorf("%s at least %s", level, least)
			}
		}
	}
	for _, level := range []string{"", "Info", "trace"} {
		if ValidLogLevel(level) || LogLevelAtLeast(level, "debug") || LogLevelAtLeast("error", level) {
			t.Errorf("%q counts as a level", level)
		}
	}
}
