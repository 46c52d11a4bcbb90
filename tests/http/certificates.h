/*
 * certificates.h: keys and certificates for tests of TLS, made when they run, in a folder that is
 * removed at the end.
 *
 * root -> middle -> leaf (localhost, 127.0.0.1). A server shows chain.pem: leaf and middle. A
 * client that trusts root.pem only needs both to check the leaf.
 */
#ifndef WEFT_TEST_HTTP_CERTIFICATES_H
#define WEFT_TEST_HTTP_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "test.h"

static char certificates_folder[] = "/tmp/weft-tls-XXXXXX";

/* A file in the folder: a text that stays. */
static inline const char *in_folder(const char *name)
{
    static char paths[16][64];
    for (int i = 0; i < 16; i++) {
        if (paths[i][0] != '\0' && strcmp(strrchr(paths[i], '/') + 1, name) == 0)
            return paths[i];
        if (paths[i][0] != '\0')
            continue;
        snprintf(paths[i], sizeof paths[i], "%s/%s", certificates_folder, name);
        return paths[i];
    }
    test_fail(__FILE__, __LINE__, "more than 16 files");
}

static inline EVP_PKEY *make_key(int type)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(type, NULL);
    CHECK(maker != NULL && EVP_PKEY_keygen_init(maker) == 1);
    if (type == EVP_PKEY_EC)
        CHECK_EQ(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(maker, NID_X9_62_prime256v1), 1);
    else
        CHECK_EQ(EVP_PKEY_CTX_set_rsa_keygen_bits(maker, 2048), 1);
    CHECK_EQ(EVP_PKEY_keygen(maker, &key), 1);
    EVP_PKEY_CTX_free(maker);
    return key;
}

static inline void add_extension(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);
    CHECK(extension != NULL && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* Signed by `by` (NULL: by itself) with its key. */
static inline X509 *make_certificate(const char *name, EVP_PKEY *key, bool authority, X509 *by,
                                     EVP_PKEY *by_key)
{
    static long serial = 1;
    X509 *certificate = X509_new();
    CHECK(certificate != NULL && X509_set_version(certificate, 2) == 1);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3600);
    CHECK_EQ(X509_set_pubkey(certificate, key), 1);
    X509_NAME *subject = X509_get_subject_name(certificate);
    CHECK_EQ(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name,
                                        -1, -1, 0),
             1);
    CHECK_EQ(
        X509_set_issuer_name(certificate, X509_get_subject_name(by != NULL ? by : certificate)), 1);
    add_extension(certificate, NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (authority)
        add_extension(certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    else
        add_extension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    CHECK(X509_sign(certificate, by_key, EVP_sha256()) > 0);
    return certificate;
}

static inline FILE *new_file(const char *name)
{
    FILE *file = fopen(in_folder(name), "w");
    CHECK(file != NULL);
    return file;
}

static inline void write_certificates(const char *name, X509 *first, X509 *second)
{
    FILE *file = new_file(name);
    CHECK_EQ(PEM_write_X509(file, first), 1);
    if (second != NULL)
        CHECK_EQ(PEM_write_X509(file, second), 1);
    fclose(file);
}

static inline void write_key(const char *name, EVP_PKEY *key, const char *password)
{
    FILE *file = new_file(name);
    CHECK_EQ(PEM_write_PKCS8PrivateKey(file, key, password != NULL ? EVP_aes_256_cbc() : NULL,
                                       password, password != NULL ? (int)strlen(password) : 0, NULL,
                                       NULL),
             1);
    fclose(file);
}

/* What an authority says of the leaf, good until `seconds` from now (0: without a word about
 * that). */
static inline void write_staple(const char *name, X509 *leaf, X509 *by, EVP_PKEY *by_key,
                                long seconds)
{
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), leaf, by);
    ASN1_TIME *from = X509_gmtime_adj(NULL, -7200);
    ASN1_TIME *until = seconds != 0 ? X509_gmtime_adj(NULL, seconds) : NULL;
    CHECK(basic != NULL && id != NULL && from != NULL);
    CHECK(OCSP_basic_add1_status(basic, id, V_OCSP_CERTSTATUS_GOOD, 0, NULL, from, until) != NULL);
    CHECK_EQ(OCSP_basic_sign(basic, by, by_key, EVP_sha256(), NULL, 0), 1);
    OCSP_RESPONSE *response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    CHECK(response != NULL);
    FILE *file = new_file(name);
    unsigned char *bytes = NULL;
    int size = i2d_OCSP_RESPONSE(response, &bytes);
    CHECK(size > 0 && fwrite(bytes, 1, (size_t)size, file) == (size_t)size);
    CHECK_EQ(fclose(file), 0);
    OPENSSL_free(bytes);
    OCSP_RESPONSE_free(response);
    OCSP_BASICRESP_free(basic);
    OCSP_CERTID_free(id);
    ASN1_TIME_free(from), ASN1_TIME_free(until);
}

static inline void certificates_make(void)
{
    CHECK(mkdtemp(certificates_folder) != NULL);
    EVP_PKEY *root_key = make_key(EVP_PKEY_EC), *middle_key = make_key(EVP_PKEY_EC);
    EVP_PKEY *key = make_key(EVP_PKEY_EC), *other = make_key(EVP_PKEY_EC);
    EVP_PKEY *rsa = make_key(EVP_PKEY_RSA);
    X509 *root = make_certificate("root", root_key, true, NULL, root_key);
    X509 *middle = make_certificate("middle", middle_key, true, root, root_key);
    X509 *leaf = make_certificate("leaf", key, false, middle, middle_key);
    write_certificates("root.pem", root, NULL);
    write_certificates("chain.pem", leaf, middle);
    write_key("key.pem", key, NULL);
    write_key("other.pem", other, NULL);
    write_key("rsa.pem", rsa, NULL);
    write_key("locked.pem", key, "secret");
    write_staple("staple.der", leaf, middle, middle_key, 3600);
    write_staple("stale.der", leaf, middle, middle_key, -3600);
    write_staple("endless.der", leaf, middle, middle_key, 0);
    X509_free(root), X509_free(middle), X509_free(leaf);
    EVP_PKEY_free(root_key), EVP_PKEY_free(middle_key), EVP_PKEY_free(key);
    EVP_PKEY_free(other), EVP_PKEY_free(rsa);
}

static inline void certificates_remove(void)
{
    static const char *const names[] = {"root.pem",  "chain.pem",  "key.pem",   "other.pem",
                                        "rsa.pem",   "locked.pem", "empty.pem", "staple.der",
                                        "stale.der", "endless.der"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(in_folder(names[i]));
    CHECK_EQ(rmdir(certificates_folder), 0);
}

#endif
