/*
 * nginx.c: a server behind nginx, as docs/http.md sets it up: X-Forwarded-For, Forwarded, a Unix
 * socket; and the PROXY protocol where nginx has its stream module.
 *
 * nginx runs on free ports of loopback, in a folder of its own. It reaches the server from
 * 127.0.0.1; the clients come from 127.0.0.5.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>

#include "http.h"

#define STREAM_MODULE "/usr/lib/nginx/modules/ngx_stream_module.so"

static const char *const programs[] = {"/usr/sbin/nginx", "/usr/local/sbin/nginx",
                                       "/usr/bin/nginx"};
static char folder[] = "/tmp/weft-nginx-XXXXXX";
static pid_t nginx;

/* By which way it came in: the server's ports, and nginx's in front of them. */
enum way { ADDED, PAIRS, SOCKET, STREAM, WAYS };
static int ports[WAYS];
static weft_http_server *servers[WAYS];

HANDLER(say_who)
{
    weft_address client;
    char text[WEFT_ADDRESS_TEXT] = "none";
    weft_http_client(request, &client);
    if (client.size != 0)
        CHECK_EQ(weft_address_format(&client, text, sizeof text), 0);
    *(strrchr(text, ':') != NULL ? strrchr(text, ':') : text + strlen(text)) = '\0';
    (void)weft_http_puts(response, text);
}

/* A port that was free a moment ago: as nginx names it in its configuration. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static bool has_stream(void)
{
    return access(STREAM_MODULE, R_OK) == 0;
}

static void start_servers(void)
{
    char address[100];
    for (int way = 0; way < WAYS; way++) {
        weft_http_options options = {.handler = say_who,
                                     .trusted_proxies = way == SOCKET ? "unix" : "127.0.0.1",
                                     .forwarded = way == PAIRS    ? WEFT_HTTP_FORWARDED
                                                  : way == STREAM ? WEFT_HTTP_FORWARDED_IGNORED
                                                                  : WEFT_HTTP_X_FORWARDED_FOR};
        weft_http_listen_options how = {.proxy = way == STREAM};
        snprintf(address, sizeof address, "unix:%s/weft", folder);
        CHECK_EQ(weft_http_open(&servers[way], &options), 0);
        CHECK_EQ(
            weft_http_listen_with(servers[way], way == SOCKET ? address : "tcp:127.0.0.1:0", &how),
            0);
        ports[way] = free_port();
    }
}

static void write_configuration(void)
{
    char path[100];
    snprintf(path, sizeof path, "%s/nginx.conf", folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (has_stream())
        fprintf(file, "load_module " STREAM_MODULE ";\n");
    if (geteuid() == 0)
        fprintf(file, "user root;\n");
    fprintf(file,
            "daemon off; worker_processes 1; pid %s/pid; error_log %s/error.log;\n"
            "events { worker_connections 100; }\n"
            "http {\n"
            "  access_log off;\n"
            "  client_body_temp_path %s/a; proxy_temp_path %s/b; fastcgi_temp_path %s/c;\n"
            "  uwsgi_temp_path %s/d; scgi_temp_path %s/e;\n"
            "  proxy_http_version 1.1; proxy_set_header Connection \"\";\n"
            "  map $remote_addr $node {\n"
            "    ~:      \"\\\"[$remote_addr]\\\"\";\n"
            "    default $remote_addr;\n"
            "  }\n"
            "  server { listen 127.0.0.1:%d;\n"
            "    location / { proxy_pass http://127.0.0.1:%d;\n"
            "      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; } }\n"
            "  server { listen 127.0.0.1:%d;\n"
            "    location / { proxy_pass http://127.0.0.1:%d;\n"
            "      proxy_set_header Forwarded \"for=$node;proto=$scheme\"; } }\n"
            "  server { listen 127.0.0.1:%d;\n"
            "    location / { proxy_pass http://unix:%s/weft;\n"
            "      proxy_set_header X-Forwarded-For $remote_addr; } }\n"
            "}\n",
            folder, folder, folder, folder, folder, folder, folder, ports[ADDED],
            port_of(servers[ADDED], 0), ports[PAIRS], port_of(servers[PAIRS], 0), ports[SOCKET],
            folder);
    if (has_stream())
        fprintf(file,
                "stream { server { listen 127.0.0.1:%d; proxy_pass 127.0.0.1:%d;"
                " proxy_protocol on; } }\n",
                ports[STREAM], port_of(servers[STREAM], 0));
    CHECK_EQ(fclose(file), 0);
}

static bool answers(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int error = connect(fd, (struct sockaddr *)&to, sizeof to);
    close(fd);
    return error == 0;
}

static void stop_nginx(void)
{
    if (nginx <= 0)
        return;
    kill(nginx, SIGTERM);
    waitpid(nginx, NULL, 0);
    nginx = 0;
}

static void start_nginx(const char *program)
{
    char configuration[100], errors[100];
    snprintf(configuration, sizeof configuration, "%s/nginx.conf", folder);
    snprintf(errors, sizeof errors, "%s/error.log", folder);
    nginx = fork();
    CHECK(nginx >= 0);
    if (nginx == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* should the test die */
        execl(program, program, "-p", folder, "-c", configuration, "-e", errors, (char *)NULL);
        _exit(127);
    }
    for (int way = 0; way < WAYS; way++) {
        while ((way != STREAM || has_stream()) && !answers(ports[way])) {
            int status;
            if (waitpid(nginx, &status, WNOHANG) == nginx) {
                nginx = 0;
                test_skip("nginx does not start here");
            }
            usleep(10000);
        }
    }
}

static void expect_client(enum way way, const char *field, const char *client)
{
    char request[300];
    struct client asking = client_of(dial_from("127.0.0.5", ports[way]));
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\n" HOST "%s\r\n\r\n", field);
    ASK(&asking, request, 200, client);
    client_close(&asking);
}

/* The client, whatever it sends. */
static void nginx_has_the_last_word(void)
{
    static const enum way ways[] = {ADDED, PAIRS, SOCKET};
    for (int i = 0; i < 3; i++) {
        expect_client(ways[i], "X-None: 1", "tcp:127.0.0.5");
        expect_client(ways[i], "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 127.0.0.1",
                      "tcp:127.0.0.5");
        expect_client(ways[i], "Forwarded: for=192.0.2.1, for=\"", "tcp:127.0.0.5");
    }
}

static void nginx_speaks_proxy(void)
{
    if (!has_stream()) {
        printf("nginx has no stream module: left out\n");
        return;
    }
    expect_client(STREAM, "X-Forwarded-For: 192.0.2.1", "tcp:127.0.0.5");
}

static void remove_folder(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK_EQ(system(command), 0); /* NOLINT(cert-env33-c): a folder of its own */
}

int main(void)
{
    const char *program = NULL;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0] && program == NULL; i++)
        program = access(programs[i], X_OK) == 0 ? programs[i] : NULL;
    if (program == NULL)
        test_skip("nginx is not installed");
    CHECK(mkdtemp(folder) != NULL);
    test_on_fail = stop_nginx;
    start_servers();
    write_configuration();
    start_nginx(program);
    RUN(nginx_has_the_last_word);
    RUN(nginx_speaks_proxy);
    stop_nginx();
    for (int way = 0; way < WAYS; way++)
        end(servers[way]);
    remove_folder();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
