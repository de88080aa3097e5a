#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <memory>

#include "teststore/channel.h"

namespace shardfs::teststore {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;

constexpr int64_t kDaySeconds = 24 * 3600;

bool add_extension(X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

// HTTP/1.1 is all that is spoken here.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                    void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kOurs, sizeof kOurs - 1, in, in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

base::Result<Identity> make_identity(const std::string& address) {
  const auto failed = [] { return base::fail(base::Code::kInvalid, "cannot make a certificate"); };
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  if (!key || !certificate) return failed();
  X509_set_version(certificate.get(), 2);
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 30 * kDaySeconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("teststore"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  std::string names = "DNS:localhost,DNS:*.localhost,IP:127.0.0.1";
  if (address != "127.0.0.1") names += ",IP:" + address;
  if (!add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE") ||
      !add_extension(certificate.get(), NID_subject_key_identifier, "hash") ||
      !add_extension(certificate.get(), NID_subject_alt_name, names) ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) {
    return failed();
  }
  const Bio certificate_bio(BIO_new(BIO_s_mem()));
  const Bio key_bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_bio.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed();
  }
  return Identity{text_of(certificate_bio.get()), text_of(key_bio.get())};
}

base::Result<std::shared_ptr<ssl_ctx_st>> tls_context(const Identity& identity) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const Bio certificate_bio(BIO_new_mem_buf(identity.certificate_pem.data(), -1));
  const Bio key_bio(BIO_new_mem_buf(identity.key_pem.data(), -1));
  const Certificate certificate(PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (!context || !certificate || !key || SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return base::fail(base::Code::kInvalid, "the certificate or its key cannot be used");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  return context;
}

}  // namespace shardfs::teststore
