package redistest

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var manyDigits = regexp.MustCompile(`\d{10,19}`)

// Times returns the commands of clients during do that tell Redis the time: those that
// contain a number close to the present time, in any unit from seconds to nanoseconds.
func (s *Server) Times(t testing.TB, do func()) (told []string) {
	t.Helper()
	said := s.Commands(t, do)
	if len(said) == 0 {
		t.Error("redistest: nothing was asked of Redis")
	}
	for _, command := range said {
		if tellsTime(command) {
			told = append(told, command)
		}
	}
	return told
}

// Commands returns the commands of clients during do, without those that scripts run.
func (s *Server) Commands(t testing.TB, do func()) (said []string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(startTime))
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 16<<20)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("redistest: MONITOR: %s, %v", lines.Text(), lines.Err())
	}
	do()
	last := "last " + strconv.Itoa(s.pid())
	client := s.Client()
	defer client.Close()
	if err := client.Echo(t.Context(), last).Err(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		from, command, _ := strings.Cut(lines.Text(), "] ")
		if strings.Contains(command, last) {
			return said
		}
		if !strings.HasSuffix(from, " lua") {
			said = append(said, command)
		}
	}
	t.Fatalf("redistest: MONITOR: %v", lines.Err())
	return nil
}

func (s *Server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// tellsTime reports whether a command contains a time within a year of now.
func tellsTime(command string) bool {
	now := time.Now()
	for _, digits := range manyDigits.FindAllString(command, -1) {
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			continue
		}
		for _, at := range []time.Time{time.Unix(number, 0), time.UnixMilli(number), time.UnixMicro(number),
			time.Unix(0, number)} {
			if at.After(now.AddDate(-1, 0, 0)) && at.Before(now.AddDate(1, 0, 0)) {
				return true
			}
		}
	}
	return false
}
