# make test    everything that has to hold, in the development profile; installs what it needs (tools/setup)
# make sim     ten thousand seeds of the whole database, simulated; SEEDS, FIRST and JOBS say otherwise
# make faults  a hundred crashes, and a full disk
# make attack  statements and messages that are made to end the server
# make test-rdma  the fabric over RDMA, in virtual machines with soft-RoCE; installs QEMU
# make bench   every measurement of docs/performance.md, in full, of the profile that is published
# make demo    the three-table join, in order and out of order, in two minutes

# mold links faster; without it everything works too.
CARGO ?= $(if $(shell command -v mold),mold -run )cargo
# Where benchmarks keep their files; on the disk that is to be measured.
DATA ?= target/bench-data
SCALE ?= 5
SAKI = target/debug/saki
SAKI_BENCH = target/debug/saki-bench
# Small enough for an unoptimised build, large enough for several levels of tree.
SMALL_SCALE = 0.01
# Simulations: how many, from which seed on, and processes at once. A hundred seeds take about a minute on two cores.
SEEDS ?= 10000
FIRST ?= 1
JOBS ?= $(shell nproc)
SAKI_SIM = target/debug/saki-sim
# Those that a few seeds find, as they come.
QUICK_FAULTS = logs-cut-early,row-ids-restart,tree-kept,receipt-ignored,release-early,locks-early

.PHONY: test setup format lint build-all models unit small-benches small-demo tour peers clients sim small-sim faults attack differ bench demo clean-data test-rdma

# What mostly waits, for disks and for clients, goes beside the unit tests, which mostly compute.
.NOTPARALLEL:
test: setup format build-all
	tools/beside "$(MAKE) small-benches small-demo tour peers clients small-sim lint models" "$(MAKE) unit"

setup:
	tools/setup

build-all:
	$(CARGO) build --workspace --all-targets

format:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check

lint: format
	$(CARGO) clippy --workspace --all-targets -- -D warnings

unit: build-all
	$(CARGO) test --workspace --no-fail-fast

# The lock-free parts under a model checker, which tries all interleavings.
models:
	RUSTFLAGS="--cfg saki_loom" CARGO_TARGET_DIR=target/models $(CARGO) test --release -p saki-log -p saki-mvcc -p saki-volume --lib loom

# The whole database from seeds. Release builds have no assertions, and no seams.
sim:
	$(CARGO) build --profile sim -p saki-sim
	target/sim/saki-sim seeds --first $(FIRST) --count $(SEEDS) --jobs $(JOBS)

small-sim: build-all
	$(SAKI_SIM) seeds --count 200 --jobs $(JOBS)
	$(SAKI_SIM) seeds --first 1001 --count 5 --jobs $(JOBS) --twice
	$(SAKI_SIM) pairs --sample 40 --jobs $(JOBS)
	$(SAKI_SIM) prove --count 60 --jobs $(JOBS) --faults $(QUICK_FAULTS)
	$(SAKI_SIM) prove --count 60 --jobs $(JOBS) --scene shown --faults overlay-forgets
	$(SAKI_SIM) prove --count 60 --jobs $(JOBS) --scene halves --faults half-seen

small-benches: build-all
	rm -rf $(DATA)/small && mkdir -p $(DATA)/small
	$(SAKI_BENCH) io --small --data $(DATA)/small --json $(DATA)/small/io.json --plot $(DATA)/small/io.png
	$(SAKI_BENCH) fabric --small --json $(DATA)/small/fabric.json --plot $(DATA)/small/fabric.png
	$(SAKI_BENCH) remote --small --data $(DATA)/small --json $(DATA)/small/remote.json --plot $(DATA)/small/remote.png
	$(SAKI_BENCH) cache --small --json $(DATA)/small/cache.json
	$(SAKI_BENCH) load --small --data $(DATA)/small --json $(DATA)/small/load.json
	$(SAKI_BENCH) ooo --small --data $(DATA)/small --json $(DATA)/small/ooo.json --plot $(DATA)/small/ooo.png
	$(SAKI_BENCH) tpch --small --modes out_of_order,in_order --repeat 1 --data $(DATA)/small --json $(DATA)/small/tpch.json --plot $(DATA)/small/tpch.png
	$(SAKI_BENCH) tpch --small --cold --repeat 1 --data $(DATA)/small --json $(DATA)/small/tpch-cold.json
	$(SAKI_BENCH) join --small --repeat 1 --data $(DATA)/small --json $(DATA)/small/join.json --plot $(DATA)/small/join.png
	$(SAKI_BENCH) operators --small --repeat 1 --data $(DATA)/small --json $(DATA)/small/operators.json
	$(SAKI_BENCH) tiering --small --data $(DATA)/small --json $(DATA)/small/tiering.json --plot $(DATA)/small/tiering.png
	$(SAKI_BENCH) merge --small --data $(DATA)/small --json $(DATA)/small/merge.json --plot $(DATA)/small/merge.png
	$(SAKI_BENCH) delta --small --data $(DATA)/small --json $(DATA)/small/delta.json --plot $(DATA)/small/delta.png
	$(SAKI_BENCH) planning --small --data $(DATA)/small --json $(DATA)/small/planning.json
	$(SAKI_BENCH) compiled --small --data $(DATA)/small --json $(DATA)/small/compiled.json
	$(SAKI_BENCH) cliffs --small --data $(DATA)/small --json $(DATA)/small/cliffs.json --plot $(DATA)/small/cliffs.png
	$(SAKI_BENCH) neworder --small --data $(DATA)/small --json $(DATA)/small/neworder.json --plot $(DATA)/small/neworder.png
	$(SAKI_BENCH) validation --small --data $(DATA)/small --json $(DATA)/small/validation.json
	$(SAKI_BENCH) tpcc --small --data $(DATA)/small --json $(DATA)/small/tpcc.json --plot $(DATA)/small/tpcc.png
	$(SAKI_BENCH) ycsb --small --data $(DATA)/small --json $(DATA)/small/ycsb.json --plot $(DATA)/small/ycsb.png
	$(SAKI_BENCH) index --small --json $(DATA)/small/index.json --plot $(DATA)/small/index.png
	$(SAKI_BENCH) recovery --small --data $(DATA)/small --json $(DATA)/small/recovery.json --plot $(DATA)/small/recovery.png

small-demo: build-all
	rm -rf $(DATA)/demo && mkdir -p $(DATA)
	$(SAKI) demo --sf $(SMALL_SCALE) --dir $(DATA)/demo

# The README's tour, as it is written there.
tour: setup build-all
	tools/tour --saki $(SAKI)

peers: setup build-all
	tools/peers/peers --saki $(SAKI) --data $(DATA)/small/peers tpch --scale $(SMALL_SCALE) --page-sizes 4096,16384,131072

# The server through the drivers and programs that people use, and under crashes.
clients: setup build-all
	tools/clients/run --quiet --saki $(SAKI) --data $(DATA)/clients
	tools/clients/pgbench --small --saki $(SAKI) --data $(DATA)/clients --json $(DATA)/clients/pgbench.json
	tools/clients/sysbench --small --saki $(SAKI) --data $(DATA)/clients --json $(DATA)/clients/sysbench.json
	tools/clients/tpcc --small --saki $(SAKI) --data $(DATA)/clients --json $(DATA)/clients/tpcc.json
	tools/clients/shapes --small --saki $(SAKI) --data $(DATA)/clients --json $(DATA)/clients/shapes.json
	tools/clients/adhoc --small --saki $(SAKI) --data $(DATA)/clients --json $(DATA)/clients/adhoc.json
	tools/clients/crash --small --saki $(SAKI) --data $(DATA)/clients --json $(DATA)/clients/crash.json
	tools/clients/crash --small --checkpoints --alterations --saki $(SAKI) --data $(DATA)/clients
	tools/clients/crash --small --checkpoints --by term --saki $(SAKI) --data $(DATA)/clients
	tools/clients/moments --small --saki $(SAKI) --data $(DATA)/clients
	# Three hundred AT TIME ZONE are planned for ten seconds by a program that is not optimised, and half a deadline.
	python3 tools/clients/attack --only '^300 of (?!AT TIME)|^60 doubling|^repeat' --saki $(SAKI) --data $(DATA)/clients

# Statements and messages that are made to end the server, all of them: about ten minutes.
attack: setup
	$(CARGO) build --release -p saki
	python3 tools/clients/attack --saki target/release/saki --data $(DATA)/clients

# The server under crashes and on a full disk, at length. Needs root, or the right to mount in a name space of its own.
faults: setup
	$(CARGO) build --release -p saki
	tools/clients/crash --times 100 --longest 3 --saki target/release/saki --data $(DATA)/clients --json $(DATA)/clients/crashes.json
	tools/clients/crash --times 100 --checkpoints --alterations --saki target/release/saki --data $(DATA)/clients
	tools/clients/moments --saki target/release/saki --data $(DATA)/clients
	mkdir -p $(DATA)/full
	unshare --mount sh -c 'mount -t tmpfs -o size=1100m none $(DATA)/full && tools/clients/full --saki target/release/saki --data $(DATA)/full'

# Statements beside PostgreSQL.
differ: setup build-all
	tools/clients/differ --small --saki $(SAKI) --data $(DATA)/clients --report $(DATA)/clients/differences.txt

bench: setup
	$(CARGO) build --profile dist -p saki -p saki-bench
	mkdir -p $(DATA)
	target/dist/saki-bench io --fio --data $(DATA) --json $(DATA)/io.json --plot $(DATA)/io.png
	target/dist/saki-bench fabric --json $(DATA)/fabric.json --plot $(DATA)/fabric.png
	target/dist/saki-bench remote --data $(DATA) --json $(DATA)/remote.json --plot $(DATA)/remote.png
	target/dist/saki-bench cache --json $(DATA)/cache.json
	target/dist/saki-bench load --data $(DATA) --json $(DATA)/load.json
	target/dist/saki-bench ooo --sf $(SCALE) --data $(DATA) --json $(DATA)/ooo.json --plot $(DATA)/ooo.png
	tools/peers/peers --saki target/dist/saki --data $(DATA)/peers tpch --scale 1
	target/dist/saki-bench tpch --sf 1 --data $(DATA) --json $(DATA)/tpch-hot.json --plot $(DATA)/tpch-hot.png
	target/dist/saki-bench tpch --sf $(SCALE) --cold --repeat 3 --data $(DATA) --json $(DATA)/tpch-cold.json --plot $(DATA)/tpch-cold.png
	target/dist/saki-bench join --sf $(SCALE) --data $(DATA) --json $(DATA)/join.json --plot $(DATA)/join.png
	target/dist/saki-bench delta --sf 1 --data $(DATA) --json $(DATA)/delta.json --plot $(DATA)/delta.png
	target/dist/saki-bench planning --sf 1 --data $(DATA) --json $(DATA)/planning.json
	target/dist/saki-bench compiled --data $(DATA) --json $(DATA)/compiled.json
	target/dist/saki-bench tiering --data $(DATA) --json $(DATA)/tiering.json --plot $(DATA)/tiering.png
	target/dist/saki-bench merge --sf $(SCALE) --data $(DATA) --json $(DATA)/merge.json --plot $(DATA)/merge.png
	target/dist/saki-bench neworder --all --data $(DATA) --json $(DATA)/neworder.json --plot $(DATA)/neworder.png
	target/dist/saki-bench validation --data $(DATA) --json $(DATA)/validation.json
	target/dist/saki-bench tpcc --data $(DATA) --json $(DATA)/tpcc.json --plot $(DATA)/tpcc.png
	target/dist/saki-bench ycsb --data $(DATA) --json $(DATA)/ycsb.json --plot $(DATA)/ycsb.png
	target/dist/saki-bench index --json $(DATA)/index.json --plot $(DATA)/index.png
	target/dist/saki-bench recovery --data $(DATA) --json $(DATA)/recovery.json --plot $(DATA)/recovery.png
	tools/clients/shapes --saki target/dist/saki --data $(DATA)/clients --json $(DATA)/shapes.json
	tools/clients/adhoc --saki target/dist/saki --data $(DATA)/clients --json $(DATA)/adhoc.json

# The contract and the benchmark of the fabric over RDMA, on one and two hosts.
test-rdma:
	$(CARGO) build -p saki-nodes
	$(CARGO) build -p saki-fabric --example contract
	tools/rdma/test

demo:
	$(CARGO) build --release
	rm -rf $(DATA)/demo
	target/release/saki demo --dir $(DATA)/demo

clean-data:
	rm -rf $(DATA)
