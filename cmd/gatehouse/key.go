package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/keyfile"
)

func newKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke API keys",
		Long: "API keys are for callers without a browser, such as CI and cron. They stand, as digests, in\n" +
			"the file that auth.keys.file names; a gateway that runs reads it again when it changes.",
	}
	cmd.AddCommand(newKeyNew(), newKeyList(), newKeyRevoke())
	return cmd
}

// keyPlace names the file of keys of a command.
type keyPlace struct{ config, file string }

func (p *keyPlace) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.config, "config", "c", "", "configuration `FILE`, whose auth.keys.file is meant")
	cmd.Flags().StringVar(&p.file, "file", "", "`FILE` of keys, in place of --config")
}

// find returns the file, "" if none is named. With a configuration it returns that, too.
func (p *keyPlace) find() (file string, cfg *gateway.Config, err error) {
	if p.file != "" && p.config != "" {
		return "", nil, misuse("--config and --file both say where the keys are: leave one out")
	}
	if p.config == "" {
		return p.file, nil, nil
	}
	loaded, _, err := config.Load(p.config)
	if err != nil {
		return "", nil, err
	}
	return loaded.Auth.Keys.File, &loaded, nil
}

func newKeyNew() *cobra.Command {
	var place keyPlace
	var e apikey.Entry
	var life string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "new --user U [--groups G,...] [--expires 90d]",
		Short: "Make an API key",
		Long: "Makes an API key, prints it to standard output, once, and adds its entry to the file of\n" +
			"keys. Without --config and --file it prints the entry to standard error instead. The\n" +
			"entry has only a digest of the key: nobody can get the key out of it.",
		Example: "  gatehouse key new -c gatehouse.yaml --user ci-bot --groups ci --name nightly",
		Args:    noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			now := time.Now().UTC()
			var err error
			if e.Expires, err = expiry(life, now); err != nil {
				return err
			}
			file, cfg, err := place.find()
			if err != nil {
				return err
			}
			key, id := apikey.New()
			e.ID, e.Hash, e.Created = id, apikey.Hash(key), now.Format(time.RFC3339)
			if err := checkEntry(e, cfg); err != nil {
				return err
			}
			return issue(cmd, file, cfg, key, e, asJSON)
		}),
	}
	place.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&e.User, "user", "", "`NAME` of the user that policy and records see (required)")
	flags.StringSliceVar(&e.Groups, "groups", nil, "`GROUPS` of the user")
	flags.StringSliceVar(&e.Scopes, "scopes", nil, "`SCOPES` of the key")
	flags.StringSliceVar(&e.Views, "views", nil, "`VIEWS` at whose endpoints alone the key is good")
	flags.StringVar(&e.Name, "name", "", "what the key is for, as a `TEXT` for people")
	flags.StringVar(&life, "expires", "90d", "after how long the key ends, such as `90d` or 12h, or never")
	outputFlags(cmd, &asJSON, "print the key and its entry as JSON")
	_ = cmd.MarkFlagRequired("user")
	return cmd
}

// checkEntry reports mistakes in an entry, for a configuration if there is one.
func checkEntry(e apikey.Entry, cfg *gateway.Config) error {
	all := []apikey.Entry{e}
	err := apikey.File{Keys: all}.Validate()
	if err == nil && cfg != nil {
		var views []string
		for _, v := range cfg.Views {
			views = append(views, v.Name)
		}
		err = apikey.CheckViews("keys", all, views)
	}
	if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "keys[0]: ", ""))
	}
	return nil
}

// issue writes an entry, and then prints the key.
func issue(cmd *cobra.Command, file string, cfg *gateway.Config, key string, e apikey.Entry, asJSON bool) error {
	out, say := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if file != "" {
		if err := keyfile.Append(file, e); err != nil {
			return err
		}
	}
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			Key   string       `json:"key"`
			Entry apikey.Entry `json:"entry"`
		}{key, e})
	}
	if _, err := fmt.Fprintln(out, key); err != nil {
		return err
	}
	fmt.Fprintln(say, "This key is shown once. Callers send it as Authorization: Bearer KEY.")
	switch {
	case file != "":
		fmt.Fprintf(say, "Its entry is in %s, which a gateway that runs reads again by itself.\n", file)
	case cfg != nil:
		fmt.Fprintf(say, "The configuration has no auth.keys.file. Add this to auth.keys.entries:\n\n%s", keyfile.Text(e))
	default:
		fmt.Fprintf(say, "Add this to a file of keys (auth.keys.file), under keys:\n\n%s", keyfile.Text(e))
	}
	return nil
}

// expiry returns the end of a life that begins now, "" for never.
func expiry(life string, now time.Time) (string, error) {
	if life == "never" {
		return "", nil
	}
	d, err := time.ParseDuration(life)
	if days, ok := strings.CutSuffix(life, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(n, 100*365)) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return "", misuse("--expires %q: want a time such as 90d or 12h, or never", life)
	}
	return now.Add(d).Format(time.RFC3339), nil
}

// entries returns the keys of the named configuration or file.
func (p *keyPlace) entries() (all []apikey.Entry, err error) {
	file, cfg, err := p.find()
	switch {
	case err != nil:
		return nil, err
	case cfg != nil:
		return cfg.Auth.Keys.All(), nil
	case file == "":
		return nil, misuse("say which keys: --config FILE or --file FILE")
	}
	return keyfile.Entries(file)
}

func newKeyList() *cobra.Command {
	var place keyPlace
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List API keys",
		Args:  noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			all, err := place.entries()
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(append([]apikey.Entry{}, all...))
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(cmd.ErrOrStderr(), "no keys")
				return err
			}
			now := time.Now()
			t := newTable(cmd.OutOrStdout(), "KEY", "USER", "GROUPS", "SCOPES", "VIEWS", "ENDS", "NAME")
			for _, e := range all {
				ends, colour := keyEnd(e, now)
				list := func(values []string) cell {
					return cell{t.short(cmp.Or(strings.Join(values, ","), "-"), 30), plain}
				}
				t.add(cell{apikey.Prefix + e.ID, plain}, cell{t.short(e.User, 30), plain}, list(e.Groups), list(e.Scopes),
					list(e.Views), cell{ends, colour}, cell{e.Name, plain})
			}
			return t.flush()
		}),
	}
	place.flags(cmd)
	outputFlags(cmd, &asJSON, "print the entries as JSON")
	return cmd
}

// keyEnd returns the end of a key as text.
func keyEnd(e apikey.Entry, now time.Time) (text, colour string) {
	switch ends := e.Ends(); {
	case e.Revoked != "":
		return "revoked", dim
	case ends.IsZero():
		return "never", yellow
	case !now.Before(ends):
		return "ended " + ago(ends, now) + " ago", red
	case ends.Sub(now) < keyfile.Soon:
		return "in " + ago(now, ends), yellow
	default:
		return "in " + ago(now, ends), plain
	}
}

func newKeyRevoke() *cobra.Command {
	var place keyPlace
	cmd := &cobra.Command{
		Use:     "revoke KEY",
		Short:   "Revoke an API key",
		Long:    "Marks a key as revoked in the file of keys. KEY is what key list shows, never the whole key.\nA gateway that runs reads the file again by itself: then the key is refused, and streams end.",
		Example: "  gatehouse key revoke -c gatehouse.yaml ghk_4f7K2m9Q3a",
		Args:    needs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, cfg, err := place.find()
			switch {
			case err != nil:
			case file == "" && cfg == nil:
				err = misuse("say where the keys are: --config FILE or --file FILE")
			case file == "":
				err = errors.New("the configuration has no auth.keys.file: write revoked into the entry in auth.keys.entries, or take it out")
			default:
				err = keyfile.Revoke(file, args[0], time.Now())
			}
			if err != nil {
				return &problemError{err}
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), "revoked: replicas with a file of their own need the changed one, too")
			return err
		},
	}
	place.flags(cmd)
	return cmd
}
