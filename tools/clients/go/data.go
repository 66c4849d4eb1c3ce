package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// value is one of a type, as it is given and as it is found; numbers with decimals as text.
type value struct {
	kind string
	sent any
	read func() (any, func() any)
}

// as reads a T.
func as[T any]() (any, func() any) {
	var found T
	return &found, func() any { return found }
}

var values = []value{
	{"boolean", true, as[bool]},
	{"smallint", int16(-32768), as[int16]},
	{"integer", int32(2147483647), as[int32]},
	{"bigint", int64(-9223372036854775808), as[int64]},
	{"real", float32(1.5), as[float32]},
	{"double precision", 1e300, as[float64]},
	{"numeric(38,10)", "-1234567890123456789012345678.0123456789", as[string]},
	{"text", "grüße, 世界 🦀", as[string]},
	{"varchar(20)", "", as[string]},
	{"char(5)", "ab   ", as[string]},
	{"bytea", []byte{0, 255, 92}, as[[]byte]},
	{"date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), as[time.Time]},
	{"timestamp", time.Date(1999, 12, 31, 23, 59, 59, 999999000, time.UTC), as[time.Time]},
	{"timestamptz", time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC), as[time.Time]},
	{"uuid", "00112233-4455-6677-8899-aabbccddeeff", as[string]},
}

// columns are c0, c1 and so on, of the types above.
func columns() string {
	list := []string{"id int PRIMARY KEY"}
	for at, value := range values {
		list = append(list, fmt.Sprintf("c%d %s", at, value.kind))
	}
	return strings.Join(list, ", ")
}

func typesBinary(ctx context.Context, conn *pgx.Conn) error {
	return roundTrip(ctx, conn, pgx.QueryExecModeCacheStatement)
}

func typesText(ctx context.Context, conn *pgx.Conn) error {
	return roundTrip(ctx, conn, pgx.QueryExecModeSimpleProtocol)
}

func roundTrip(ctx context.Context, conn *pgx.Conn, mode pgx.QueryExecMode) error {
	if err := table(ctx, conn, "go_types", columns()); err != nil {
		return err
	}
	marks := []string{"1"}
	arguments := []any{mode}
	nulls := []string{"2"}
	for at, value := range values {
		marks = append(marks, fmt.Sprintf("$%d", at+1))
		arguments = append(arguments, value.sent)
		nulls = append(nulls, "NULL")
	}
	if _, err := conn.Exec(ctx, "INSERT INTO go_types VALUES ("+strings.Join(marks, ", ")+")", arguments...); err != nil {
		return err
	}
	if err := execute(ctx, conn, "INSERT INTO go_types VALUES ("+strings.Join(nulls, ", ")+")"); err != nil {
		return err
	}
	for at, value := range values {
		into, found := value.read()
		query := fmt.Sprintf("SELECT c%d FROM go_types WHERE id = 1", at)
		if err := conn.QueryRow(ctx, query, mode).Scan(into); err != nil {
			return fmt.Errorf("%s: %w", value.kind, err)
		}
		same := equal(found(), value.sent)
		if moment, ok := value.sent.(time.Time); ok {
			same = equal(found().(time.Time).UTC().Format(time.RFC3339Nano), moment.Format(time.RFC3339Nano))
		}
		if same != nil {
			return fmt.Errorf("%s: %w", value.kind, same)
		}
	}
	rows, err := conn.Query(ctx, "SELECT * FROM go_types WHERE id = 2", mode)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return fmt.Errorf("no row of NULLs: %w", rows.Err())
	}
	for _, raw := range rows.RawValues()[1:] {
		if raw != nil {
			return fmt.Errorf("found %q, expected NULL", raw)
		}
	}
	return nil
}

func batch(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_batch", "id int PRIMARY KEY, n int"); err != nil {
		return err
	}
	statements := &pgx.Batch{}
	for id := 0; id < 1000; id++ {
		statements.Queue("INSERT INTO go_batch VALUES ($1, $2)", id, id*2)
	}
	statements.Queue("SELECT sum(n)::int FROM go_batch").QueryRow(func(row pgx.Row) error {
		var sum int
		return first(row.Scan(&sum), equal(sum, 999000))
	})
	if err := conn.SendBatch(ctx, statements).Close(); err != nil {
		return err
	}
	// Without a transaction around it, a batch is one.
	failing := &pgx.Batch{}
	failing.Queue("INSERT INTO go_batch VALUES (1000, 0)")
	failing.Queue("INSERT INTO go_batch VALUES (1, 0)")
	if err := refused("23505", conn.SendBatch(ctx, failing).Close()); err != nil {
		return err
	}
	var count int
	err := conn.QueryRow(ctx, "SELECT count(*) FROM go_batch").Scan(&count)
	return first(err, equal(count, 1000))
}

// copyRows uses the binary format, which is the only one that the driver writes.
func copyRows(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_copy", columns()); err != nil {
		return err
	}
	names := []string{"id"}
	for at := range values {
		names = append(names, fmt.Sprintf("c%d", at))
	}
	rows, err := conn.CopyFrom(ctx, pgx.Identifier{"go_copy"}, names, pgx.CopyFromSlice(10000, func(id int) ([]any, error) {
		row := []any{id}
		for _, value := range values {
			row = append(row, value.sent)
		}
		return row, nil
	}))
	if err := first(err, equal(rows, int64(10000))); err != nil {
		return err
	}
	var same int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM go_copy WHERE c2 = 2147483647 AND c6 = $1::numeric AND c10 = $2 AND c14 = $3",
		values[6].sent, values[10].sent, values[14].sent).Scan(&same)
	if err := first(err, equal(same, 10000)); err != nil {
		return err
	}
	var out strings.Builder
	_, err = conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, c0, c7 FROM go_copy WHERE id < 2 ORDER BY id) TO STDOUT (FORMAT csv)")
	return first(err, equal(out.String(), "0,t,\"grüße, 世界 🦀\"\n1,t,\"grüße, 世界 🦀\"\n"))
}

func metadata(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_metadata", columns()); err != nil {
		return err
	}
	statement, err := conn.Prepare(ctx, "described", "SELECT * FROM go_metadata WHERE id = $1 AND c7 = $2 AND c11 < $3")
	if err != nil {
		return err
	}
	var kinds []uint32
	for _, field := range statement.Fields {
		kinds = append(kinds, field.DataTypeOID)
	}
	return first(equal(statement.ParamOIDs, []uint32{23, 25, 1082}),
		equal(kinds, []uint32{23, 16, 21, 23, 20, 700, 701, 1700, 25, 1043, 1042, 17, 1082, 1114, 1184, 2950}))
}

func large(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT i, 'row' FROM generate_series(1, 1000000) AS g(i)")
	if err != nil {
		return err
	}
	var count, sum, number int
	var word string
	_, err = pgx.ForEachRow(rows, []any{&number, &word}, func() error {
		count++
		sum += number
		return nil
	})
	return first(err, equal(count, 1000000), equal(sum, 500000500000))
}

func concurrency(ctx context.Context, conn *pgx.Conn) error {
	if err := table(ctx, conn, "go_concurrency", "id int PRIMARY KEY, n int"); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return err
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	var waiting sync.WaitGroup
	problems := make(chan error, 16)
	for worker := 0; worker < 16; worker++ {
		waiting.Add(1)
		go func(worker int) {
			defer waiting.Done()
			for step := 0; step < 50; step++ {
				if _, err := pool.Exec(ctx, "INSERT INTO go_concurrency VALUES ($1, $2)", worker*50+step, worker); err != nil {
					problems <- err
					return
				}
			}
		}(worker)
	}
	waiting.Wait()
	close(problems)
	if err := <-problems; err != nil {
		return err
	}
	var count, sum int
	err = conn.QueryRow(ctx, "SELECT count(*), sum(n)::int FROM go_concurrency").Scan(&count, &sum)
	return first(err, equal(count, 800), equal(sum, 6000))
}
