/*
 * mime.c: the type of a file by the ending of its name.
 *
 * The table is built in and not read from /etc/mime.types, so that a program serves the same types
 * everywhere. Text is UTF-8; XML and JSON declare or imply it themselves.
 */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include <weft/http_files.h>

#define TEXT(type) "text/" type "; charset=utf-8"

/* In the order of the endings. */
static const struct type {
    const char *ending, *type;
} types[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apk", "application/vnd.android.package-archive"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", TEXT("plain")},
    {"conf", TEXT("plain")},
    {"css", TEXT("css")},
    {"csv", TEXT("csv")},
    {"deb", "application/vnd.debian.binary-package"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"glb", "model/gltf-binary"},
    {"gltf", "model/gltf+json"},
    {"gz", "application/gzip"},
    {"h", TEXT("plain")},
    {"heic", "image/heic"},
    {"htm", TEXT("html")},
    {"html", TEXT("html")},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", TEXT("calendar")},
    {"jar", "application/java-archive"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", TEXT("javascript")},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"log", TEXT("plain")},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/mp4"},
    {"map", "application/json"},
    {"md", TEXT("markdown")},
    {"mid", "audio/midi"},
    {"mjs", TEXT("javascript")},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpd", "application/dash+xml"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "video/mp2t"},
    {"ttf", "font/ttf"},
    {"txt", TEXT("plain")},
    {"vtt", TEXT("vtt")},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

const char *weft_http_type(const char *name)
{
    const char *slash = name != NULL ? strrchr(name, '/') : NULL;
    const char *dot = name != NULL ? strrchr(slash != NULL ? slash : name, '.') : NULL;
    size_t low = 0, high = dot != NULL ? sizeof types / sizeof types[0] : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcasecmp(types[middle].ending, dot + 1);
        if (order == 0)
            return types[middle].type;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return "application/octet-stream";
}
