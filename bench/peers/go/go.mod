module weft-bench-go

go 1.26.0

require github.com/panjf2000/ants/v2 v2.12.1

require (
	github.com/valyala/fasthttp v1.74.0
	golang.org/x/sync v0.24.0
)

require (
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/molecule-man/go-brrr v1.0.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)
