// Checks of a server through pgx: its own types in both formats, batches, COPY, pools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type check struct {
	name string
	run  func(context.Context, *pgx.Conn) error
}

var checks = []check{
	{"connecting", connecting},
	{"tls", tls},
	{"wrong_password", wrongPassword},
	{"simple", simple},
	{"parameters", parameters},
	{"prepared", prepared},
	{"types_binary", typesBinary},
	{"types_text", typesText},
	{"transactions", transactions},
	{"retry", retry},
	{"batch", batch},
	{"copy", copyRows},
	{"cursor", cursor},
	{"cancel", cancel},
	{"errors", sqlstates},
	{"metadata", metadata},
	{"large", large},
	{"concurrency", concurrency},
}

// connect opens a connection; the environment says where.
func connect(ctx context.Context, change func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	change(config)
	return pgx.ConnectConfig(ctx, config)
}

// refused says what is wrong with an error that should have this SQLSTATE.
func refused(state string, err error) error {
	var raised *pgconn.PgError
	switch {
	case err == nil:
		return fmt.Errorf("no error, expected %s", state)
	case !errors.As(err, &raised):
		return fmt.Errorf("expected %s, found %w", state, err)
	case raised.Code != state:
		return fmt.Errorf("expected %s, found %s: %s", state, raised.Code, raised.Message)
	}
	return nil
}

// equal compares values as Go prints them.
func equal(found, expected any) error {
	if shown, wanted := fmt.Sprintf("%#v", found), fmt.Sprintf("%#v", expected); shown != wanted {
		return fmt.Errorf("found %.500s, expected %.500s", shown, wanted)
	}
	return nil
}

// execute runs statements one by one.
func execute(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// table makes an empty table.
func table(ctx context.Context, conn *pgx.Conn, name, columns string) error {
	return execute(ctx, conn, "DROP TABLE IF EXISTS "+name, "CREATE TABLE "+name+" ("+columns+")")
}

// first keeps the first thing that went wrong.
func first(problems ...error) error {
	for _, problem := range problems {
		if problem != nil {
			return problem
		}
	}
	return nil
}

// passes runs one check on a connection of its own.
func passes(check check) error {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	conn, err := connect(ctx, func(*pgx.ConnConfig) {})
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return check.run(ctx, conn)
}

func wanted(names []string) ([]check, error) {
	if len(names) == 0 {
		return checks, nil
	}
	var found []check
	for _, name := range names {
		before := len(found)
		for _, check := range checks {
			if check.name == name {
				found = append(found, check)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("there is no check %s", name)
		}
	}
	return found, nil
}

func main() {
	selected, err := wanted(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Printf("1..%d\n", len(selected))
	status := 0
	for _, check := range selected {
		started := time.Now()
		if err := passes(check); err != nil {
			fmt.Printf("not ok - %s\n# %s\n", check.name, strings.ReplaceAll(err.Error(), "\n", "\n# "))
			status = 1
			continue
		}
		fmt.Printf("ok - %s # %.2f s\n", check.name, time.Since(started).Seconds())
	}
	os.Exit(status)
}
