package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const endless = "SELECT count(*) FROM generate_series(1, 3000000) AS a(i), generate_series(1, 3000000) AS b(j) WHERE i + j < 0"

func connecting(ctx context.Context, conn *pgx.Conn) error {
	other, err := connect(ctx, func(config *pgx.ConnConfig) { config.RuntimeParams["application_name"] = "checks" })
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	var name string
	if err := other.QueryRow(ctx, "SHOW application_name").Scan(&name); err != nil {
		return err
	}
	return first(equal(name, "checks"), equal(conn.PgConn().ParameterStatus("client_encoding"), "UTF8"), conn.Ping(ctx))
}

func tls(ctx context.Context, _ *pgx.Conn) error {
	conn, err := pgx.Connect(ctx, "sslmode=verify-full")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

func wrongPassword(ctx context.Context, _ *pgx.Conn) error {
	_, err := connect(ctx, func(config *pgx.ConnConfig) { config.Password = "wrong" })
	return refused("28P01", err)
}

func simple(ctx context.Context, conn *pgx.Conn) error {
	results, err := conn.PgConn().Exec(ctx, "SELECT 1; SELECT 'x', NULL; SELECT 1 WHERE false").ReadAll()
	if err != nil {
		return err
	}
	var tags []string
	for _, result := range results {
		tags = append(tags, result.CommandTag.String())
	}
	var number int
	var word string
	err = conn.QueryRow(ctx, "SELECT $1::int, $2::text", pgx.QueryExecModeSimpleProtocol, 42, "it's").Scan(&number, &word)
	return first(err, equal(tags, []string{"SELECT 1", "SELECT 1", "SELECT 0"}), equal(number, 42), equal(word, "it's"),
		execute(ctx, conn, ""))
}

func parameters(ctx context.Context, conn *pgx.Conn) error {
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for _, mode := range modes {
		var sum int
		var word *string
		err := conn.QueryRow(ctx, "SELECT $1::int + $2::int, $3::text", mode, 40, 2, nil).Scan(&sum, &word)
		if err := first(err, equal(sum, 42), equal(word == nil, true)); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

func prepared(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_prepared", "id int PRIMARY KEY, word text"); err != nil {
		return err
	}
	statement, err := conn.Prepare(ctx, "insert", "INSERT INTO go_prepared VALUES ($1, $2)")
	if err != nil {
		return err
	}
	// The types of parameters come from the columns.
	if err := equal(statement.ParamOIDs, []uint32{23, 25}); err != nil {
		return err
	}
	for id := 0; id < 50; id++ {
		if _, err := conn.Exec(ctx, "insert", id, fmt.Sprint("w", id)); err != nil {
			return err
		}
	}
	for id := 0; id < 50; id++ {
		var word string
		err := conn.QueryRow(ctx, "SELECT word FROM go_prepared WHERE id = $1", id).Scan(&word)
		if err := first(err, equal(word, fmt.Sprint("w", id))); err != nil {
			return err
		}
	}
	return first(conn.Deallocate(ctx, "insert"), conn.DeallocateAll(ctx))
}

func transactions(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_transactions", "id int PRIMARY KEY"); err != nil {
		return err
	}
	undo := errors.New("undo")
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO go_transactions VALUES (1)"); err != nil {
			return err
		}
		// A transaction in a transaction is a savepoint.
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			if _, err := inner.Exec(ctx, "INSERT INTO go_transactions VALUES (2)"); err != nil {
				return err
			}
			return undo
		})
		if !errors.Is(err, undo) {
			return fmt.Errorf("found %v, expected that it is undone", err)
		}
		_, err = tx.Exec(ctx, "INSERT INTO go_transactions VALUES (3)")
		return err
	})
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO go_transactions VALUES (4)")
	if err := first(refused("25006", err), tx.Rollback(ctx)); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, "SELECT id FROM go_transactions ORDER BY id")
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	return first(err, equal(ids, []int{1, 3}))
}

func retry(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_retry", "id int PRIMARY KEY, n int"); err != nil {
		return err
	}
	other, err := connect(ctx, func(*pgx.ConnConfig) {})
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	if err := execute(ctx, conn, "INSERT INTO go_retry VALUES (1, 0)"); err != nil {
		return err
	}
	again := 0
	once := func(tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "SELECT n FROM go_retry WHERE id = 1").Scan(&n); err != nil {
			return err
		}
		if again == 0 {
			if err := execute(ctx, other, "UPDATE go_retry SET n = n + 1 WHERE id = 1"); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE go_retry SET n = $1 WHERE id = 1", n+1)
		return err
	}
	for {
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, once)
		if err == nil {
			break
		}
		var raised *pgconn.PgError
		if !errors.As(err, &raised) || (raised.Code != "40001" && raised.Code != "40P01") {
			return err
		}
		again++
	}
	var n int
	err = conn.QueryRow(ctx, "SELECT n FROM go_retry").Scan(&n)
	return first(err, equal(n, 2), equal(again, 1))
}

func cursor(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "DECLARE c CURSOR FOR SELECT i FROM generate_series(1, 250) AS g(i) ORDER BY i"); err != nil {
		return err
	}
	var sizes []int
	for {
		rows, err := tx.Query(ctx, "FETCH 100 FROM c")
		if err != nil {
			return err
		}
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil {
			return err
		}
		if len(numbers) == 0 {
			return equal(sizes, []int{100, 100, 50})
		}
		sizes = append(sizes, len(numbers))
	}
}

func cancel(ctx context.Context, conn *pgx.Conn) error {
	started := time.Now()
	time.AfterFunc(500*time.Millisecond, func() { _ = conn.PgConn().CancelRequest(ctx) })
	_, err := conn.Exec(ctx, endless)
	if time.Since(started) > 5*time.Second {
		return errors.New("the cancelled query went on")
	}
	return first(refused("57014", err), conn.Ping(ctx))
}

func sqlstates(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_errors", "id int PRIMARY KEY, n int NOT NULL CHECK (n > 0)"); err != nil {
		return err
	}
	if err := execute(ctx, conn, "INSERT INTO go_errors VALUES (1, 1)"); err != nil {
		return err
	}
	for _, wrong := range []struct{ state, statement string }{
		{"23505", "INSERT INTO go_errors VALUES (1, 1)"},
		{"23502", "INSERT INTO go_errors VALUES (2, NULL)"},
		{"23514", "INSERT INTO go_errors VALUES (2, 0)"},
		{"42P01", "SELECT * FROM go_nowhere"},
		{"42703", "SELECT nothing FROM go_errors"},
		{"22P02", "SELECT 'abc'::int"},
		{"22012", "SELECT 1 / (id - id) FROM go_errors"},
		{"42601", "SELEC 1"},
	} {
		_, err := conn.Exec(ctx, wrong.statement)
		if err := refused(wrong.state, err); err != nil {
			return fmt.Errorf("%s: %w", wrong.statement, err)
		}
	}
	return conn.Ping(ctx)
}
